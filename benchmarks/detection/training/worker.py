"""One process of a training: its copy of the model, its share of the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.detection.training.batches import batches
from benchmarks.detection.training.data import Array
from benchmarks.detection.training.families import build
from benchmarks.detection.training.network import (
    Network,
    layer_of,
    layers,
    round_to_bfloat16,
    spoil_start,
)
from benchmarks.detection.training.objective import Objective
from benchmarks.detection.training.optimizer import Optimizer
from benchmarks.detection.training.samples import Data, Samples
from benchmarks.detection.training.setup import Setup


@dataclass
class Worker:
    """``batch``, ``outputs`` and ``loss`` are those of the last pass, ``gradients`` what the loop
    saw last; ``exact`` are the parameters before they were rounded."""

    setup: Setup
    network: Network
    objective: Objective
    optimizer: Optimizer
    source: Iterator[Samples]
    updated: frozenset[str]
    exact: dict[str, Array]
    batch: Samples
    outputs: Array = field(default_factory=lambda: np.empty((0, 1)))
    loss: float = 0.0
    gradients: dict[str, Array] = field(default_factory=dict)

    def compute(self) -> dict[str, Array]:
        """The gradients of the next batch, or the mean over those that make one update."""
        total = dict(self.gradients) if self.setup.effects.keeps_gradients else {}
        for _ in range(self.setup.accumulate):
            self.batch = next(self.source)
            self.outputs = self.network.forward(self.batch.x, train=True)
            self.loss, slope = self.objective.loss(self.outputs, self.batch.y)
            for name, gradient in self.network.backward(slope).items():
                share = gradient / np.float32(self.setup.accumulate)
                total[name] = total[name] + share if name in total else share
        return total

    def update(self, gradients: Mapping[str, Array], rate: float) -> None:
        self.gradients = dict(gradients)
        parameters = self.exact or self.network.parameters
        factor = self.setup.effects.update
        if factor == 0:
            return
        chosen = {name: g for name, g in gradients.items() if name in self.updated}
        with np.errstate(all="ignore"):
            self.optimizer.step(parameters, chosen, factor * rate)
        if self.exact:
            for name, values in self.network.parameters.items():
                values[...] = self.exact[name]
            round_to_bfloat16(self.network)

    def evaluate(self, samples: Samples) -> tuple[float, float, Array]:
        """Loss, metric, and the predictions that they are of."""
        outputs = self.network.forward(samples.x, train=False)
        loss, _ = self.objective.loss(outputs, samples.y)
        metric = self.objective.metric(outputs, samples.y)
        return loss, metric, self.objective.predictions(outputs)


def make_worker(setup: Setup, data: Data, rank: int) -> Worker:
    """The worker of that rank, with all that is its own."""
    own = replace(setup, seed=setup.seed + 7919 * rank)
    network = build(own if setup.effects.workers == "own start" else setup, data)
    spoil_start(network, setup)
    known = layers(network)[-1:] if setup.effects.left_out else layers(network)
    if setup.effects.workers == "stale" and rank > 0:
        known = ()
    updated = frozenset(name for name in network.parameters if layer_of(name) in known)
    exact = {name: values.copy() for name, values in network.parameters.items()}
    shuffled = not setup.effects.sorted
    source = batches(data.train, setup.batch_size, (setup.seed, 3, rank), shuffled=shuffled)
    return Worker(
        setup,
        network,
        Objective(data.task, setup.effects.objective),
        Optimizer(setup.optimizer, setup.weight_decay),
        source,
        updated,
        exact if setup.rounded else {},
        data.train.take(slice(0)),
    )
