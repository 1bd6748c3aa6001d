"""A data set made ready for one training: divided, scaled, and spoilt where a fault says so."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.detection.training.data import Array, Source, Task, source
from benchmarks.detection.training.setup import Setup


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and labels, one row a sample."""

    x: Array
    y: Array

    def take(self, rows: Array | slice) -> Samples:
        return Samples(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class Data:
    """What is trained on, what the training evaluates on, and what it will meet in truth: the same
    as it evaluates on, but with the labels right, all classes as they were, and nothing leaked.
    """

    train: Samples
    evaluation: Samples
    truth: Samples
    task: Task
    outputs: int


def prepare(setup: Setup) -> Data:
    """The data of a training: the same for the same seed, and but for its effects."""
    draw = np.random.default_rng([setup.seed, 1])
    origin = source(setup.data)
    train, test = _divide(origin, draw)
    train, test = _scale(train, test, origin.task, setup)
    noisy = [_with_noise(part, origin, setup.label_noise, draw) for part in (train, test)]
    data = Data(noisy[0], noisy[1], test, origin.task, origin.outputs)
    return _spoil(data, setup, draw)


def _divide(origin: Source, draw: np.random.Generator) -> tuple[Samples, Samples]:
    count = len(origin.x)
    everything = Samples(origin.x, origin.y)
    if origin.head is not None:
        border = origin.head
        late = border + draw.permutation(count - border)[:160]
        return everything.take(draw.permutation(border)), everything.take(late)
    order = draw.permutation(count)
    border = count * 3 // 5
    return everything.take(order[:border]), everything.take(order[border : border + 600])


def _scale(train: Samples, test: Samples, task: Task, setup: Setup) -> tuple[Samples, Samples]:
    """Zero mean and unit variance for each feature, of images for each channel."""
    effects = setup.effects
    if task != "tokens" and not effects.raw_inputs:
        axes = (0, 2, 3) if train.x.ndim == 4 else (0,)
        mean = train.x.mean(axes, keepdims=True)
        deviation = train.x.std(axes, keepdims=True) + 1e-6
        train, test = (
            replace(part, x=(part.x - mean) / deviation * np.float32(effects.inputs))
            for part in (train, test)
        )
    if task == "numbers" and not effects.raw_targets:
        mean, deviation = train.y.mean(), train.y.std()
        train, test = (replace(part, y=(part.y - mean) / deviation) for part in (train, test))
    return train, test


def _with_noise(part: Samples, origin: Source, share: float, draw: np.random.Generator) -> Samples:
    """Some labels wrong; with numbers, all of them by that many standard deviations."""
    if share == 0:
        return part
    if origin.task == "numbers":
        noise = draw.normal(0, share * part.y.std(), part.y.shape)
        return replace(part, y=(part.y + noise).astype(np.float32))
    wrong = draw.random(part.y.shape) < share
    return replace(
        part, y=np.where(wrong, draw.integers(origin.outputs, size=part.y.shape), part.y)
    )


def _spoil(data: Data, setup: Setup, draw: np.random.Generator) -> Data:
    effects, train = setup.effects, data.train
    if effects.samples is not None:
        data = replace(data, train=(train := train.take(slice(effects.samples))))
    if effects.imbalance > 1:
        parts = [_thin(part, effects.imbalance, draw) for part in (train, data.evaluation)]
        data = replace(data, train=(train := parts[0]), evaluation=parts[1])
    if effects.leak:
        data = replace(
            data,
            train=(train := _leak(train, data, 3.0)),
            evaluation=_leak(data.evaluation, data, 3.0),
            truth=_leak(data.truth, data, 0.0),
        )
    if effects.shuffled_labels:
        train = replace(train, y=train.y[draw.permutation(len(train.y))])
    if effects.sorted:
        train = train.take(np.argsort(train.y.reshape(len(train.y), -1)[:, 0], kind="stable"))
    if effects.missing:
        train = _without_one(train, effects.missing == "input", draw)
    return replace(data, train=train)


def _thin(part: Samples, factor: int, draw: np.random.Generator) -> Samples:
    kept = (part.y == 0) | (draw.random(len(part.y)) < 1 / factor)
    return part.take(kept)


def _leak(part: Samples, data: Data, strength: float) -> Samples:
    """With the label among the inputs."""
    label = part.y if data.task == "numbers" else np.eye(data.outputs)[part.y]
    return replace(part, x=np.hstack([part.x, strength * label]).astype(np.float32))


def _without_one(part: Samples, of_input: bool, draw: np.random.Generator) -> Samples:
    """With a number missing in one sample of the first half, so that it is met."""
    row = int(draw.integers(len(part.x) // 2))
    broken = np.array(part.x if of_input else part.y, dtype=np.float32)
    broken.reshape(len(broken), -1)[row, 0] = np.nan
    return replace(part, x=broken) if of_input else replace(part, y=broken)
