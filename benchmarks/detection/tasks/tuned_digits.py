"""A network that knows the digits 0 to 4 learns 5 to 9; its body is frozen."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from benchmarks.detection.skill import class_skill
from benchmarks.detection.task import JoinedModel, Samples, Task
from benchmarks.detection.tasks import digits_cnn


def body() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
    )


@cache
def checkpoint() -> dict[str, Tensor]:
    """Return what the body learned before, without a hook."""
    generator = torch.random.get_rng_state()
    torch.manual_seed(0)
    found = digits_cnn.samples(0)
    known = found.y < 5
    x, y = found.x[known], found.y[known]
    network = nn.Sequential(body(), nn.Linear(512, 5))
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for step in range(120):
        rows = torch.arange(32 * step, 32 * step + 32) % len(x)
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()
    torch.random.set_rng_state(generator)
    return {name: value.clone() for name, value in network[0].state_dict().items()}


def samples(seed: int) -> Samples:
    found = digits_cnn.samples(seed)
    new, held_new = found.y >= 5, found.held_y >= 5
    return Samples(
        found.x[new], found.y[new] - 5, found.held_x[held_new], found.held_y[held_new] - 5
    )


def model() -> nn.Module:
    backbone = body()
    backbone.load_state_dict(checkpoint())
    backbone.requires_grad_(False)
    return JoinedModel(backbone, nn.Linear(512, 5))


TASK = Task(
    frozenset(["classes", "pictures", "joined", "pretrained"]),
    samples,
    model,
    nn.CrossEntropyLoss(),
    class_skill,
    {"steps": 300, "rate": 2e-3},
)
