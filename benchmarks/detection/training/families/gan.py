"""Two networks against each other: one invents samples, the other tells them from true ones."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from tocsin_hooks import Hook, modes
from torch import Tensor, nn

from benchmarks.detection.training.batches import batches
from benchmarks.detection.training.data import Array
from benchmarks.detection.training.families.torch_network import TorchNetwork
from benchmarks.detection.training.outcome import Outcome, finite
from benchmarks.detection.training.recorder import Recorder
from benchmarks.detection.training.samples import Samples, prepare
from benchmarks.detection.training.setup import Setup

LATENT = 8
FEATURES = 4


def train(setup: Setup, folder: Path) -> Outcome:
    """Train the pair on the first features of the data, and write the run into ``folder``."""
    started = perf_counter()
    torch.manual_seed(setup.seed)
    data = prepare(setup)
    true = data.train.x.reshape(len(data.train.x), -1)[:, :FEATURES]
    size, width = true.shape[1], setup.width
    inventor = nn.Sequential(nn.Linear(LATENT, width), nn.ReLU(), nn.Linear(width, size))
    critic = nn.Sequential(nn.Linear(size, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))
    pair = nn.ModuleDict({"generator": inventor, "discriminator": critic})
    steps = [
        torch.optim.Adam(part.parameters(), setup.learning_rate, betas=(0.5, 0.999))
        for part in (inventor, critic)
    ]
    hook = Hook(folder, save_interval=setup.save_interval, run_id=setup.name, max_overhead=None)
    recorder = Recorder(hook)
    source = batches(Samples(true, true), setup.batch_size, (setup.seed, 3))
    losses: list[float] = []
    for _ in range(setup.steps):
        real = torch.from_numpy(next(source).x)
        against = _loss(critic(real), 1) + _loss(critic(inventor(_noise(len(real))).detach()), 0)
        _update(steps[1], against)
        seen = _gradients(critic, "discriminator")  # which the generator's step adds to
        invented = _loss(critic(inventor(_noise(len(real)))), 1)
        _update(steps[0], invented)
        losses.append(against.item())
        _record(recorder, pair, seen, losses[-1], invented.item())
    recorder.close()
    seconds = round(perf_counter() - started, 3)
    found = [finite(losses[-1]), finite(_likeness(inventor, true))]
    return Outcome(found[0], found[1], found[0], found[1], (), recorder.given, seconds)


def _gradients(part: nn.Module, name: str) -> dict[str, Array]:
    parameters = part.named_parameters(prefix=name)
    return {name: p.grad.numpy().copy() for name, p in parameters if p.grad is not None}


def _record(
    recorder: Recorder, pair: nn.ModuleDict, seen: dict[str, Array], against: float, own: float
) -> None:
    hook = recorder.hook
    with hook.step(modes.TRAIN):
        if not hook.saving:
            return
        hook.save("discriminator_loss", against, "losses")
        hook.save("generator_loss", own, "losses")
        gradients = seen | _gradients(pair["generator"], "generator")
        recorder.model(TorchNetwork(pair).parameters, gradients, {})
    recorder.saved()


def _noise(count: int) -> Tensor:
    return torch.randn(count, LATENT)


def _loss(outputs: Tensor, target: float) -> Tensor:
    wanted = torch.full_like(outputs, target)
    return nn.functional.binary_cross_entropy_with_logits(outputs, wanted)


def _update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]  # torch's
    optimizer.step()


def _likeness(inventor: nn.Module, true: Array) -> float:
    """1 when mean and deviation of each feature are as in truth, less by how far they are off."""
    with torch.no_grad():
        invented = inventor(_noise(1000)).numpy()
    off = np.abs(invented.mean(0) - true.mean(0)) + np.abs(invented.std(0) - true.std(0))
    return 1 - float(off.mean()) / 2
