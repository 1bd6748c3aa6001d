"""Pictures of handwritten digits, which a generator learns to draw."""

from __future__ import annotations

from torch import nn

from benchmarks.detection.kit import dense
from benchmarks.detection.task import Samples, Task
from benchmarks.detection.tasks import digits_sigmoid
from benchmarks.detection.tasks.ring_points import LATENT, likeness


def samples(seed: int) -> Samples:
    found = digits_sigmoid.samples(seed)
    return Samples(found.x, found.x, found.held_x, found.held_x)


def model() -> nn.Module:
    return nn.ModuleDict({
        "generator": nn.Sequential(*dense([LATENT, 64, 64]), nn.Tanh()),
        "discriminator": dense([64, 64, 1], nn.LeakyReLU),
    })  # fmt: skip


TASK = Task(
    frozenset(["adversarial"]),
    samples,
    model,
    nn.BCEWithLogitsLoss(),
    likeness,
    {"steps": 1500, "rate": 1e-3},
)
