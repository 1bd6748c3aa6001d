"""Prune a network round by round, by what a run has captured, until a rule says that it is enough.

A network that reads digits is trained, and its weights and gradients are captured. Then, in each
round, a fifth of the weights that are left becomes zero: those with the least |weight × gradient|
in the last steps, read back from the run. The rest is trained on. The rule ``PruningDone`` of
``examples/rules_custom`` fires when accuracy is more than 5 % below its best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tocsin import create_trial
from tocsin.custom import load_files
from tocsin.evaluation import check, document
from tocsin.rules import find_rule
from tocsin.tensors import open_storage
from tocsin.watch import read_watch
from tocsin_hooks import Hook, modes

from examples.digits_numpy import Network, digits, half_squared_error
from examples.shown import Shown, chart, wait_until_written

HERE = Path(__file__).parent
SHARE = 0.2  # of the weights that are left, in a round
RATE = 0.3
LAST = 5  # steps of a round that are captured
MOST_ROUNDS = 40


@dataclass
class Pruning:
    """A network whose pruned weights stay zero, and the run that it writes."""

    out: Path
    hidden: int
    hook: Hook = field(init=False)

    def __post_init__(self) -> None:
        self.data = digits(0)
        self.network = Network([64, self.hidden, 10], "relu", np.random.default_rng(0))
        self.masks = [np.ones_like(weight) for weight in self.network.weights]
        self.random = np.random.default_rng(1)
        self.hook = Hook(self.out, watch=HERE / "watch.yaml", poll_interval=0.1)

    @property
    def weights(self) -> int:
        """Return how many are not pruned."""
        return int(sum(mask.sum() for mask in self.masks))

    def train(self, steps: int) -> float:
        """Trains, captures the last steps and an evaluation, and returns the accuracy."""
        for left in reversed(range(steps)):
            if left < LAST:
                with self.hook.step(modes.TRAIN):
                    self._descend(save=True)
            else:
                self._descend(save=False)
        images, wanted = self.data[2:]
        outputs = self.network.layers(images)[-1]
        accuracy = float(np.mean(outputs.argmax(axis=1) == wanted.argmax(axis=1)))
        with self.hook.step(modes.EVAL):
            self.hook.save("accuracy", accuracy, "metrics")
        wait_until_written(self.hook, sum(self.hook.position[mode] for mode in ("TRAIN", "EVAL")))
        return accuracy

    def _descend(self, *, save: bool) -> None:
        images, wanted = self.data[:2]
        batch = self.random.integers(0, len(images), 64)
        values = self.network.layers(images[batch])
        weights, biases = self.network.gradients(values, wanted[batch])
        if save:
            self.hook.save("loss", half_squared_error(values[-1], wanted[batch]), "losses")
            for layer, gradient in enumerate(weights):
                self.hook.save(f"layer{layer}/weight", self.network.weights[layer], "weights")
                self.hook.save(f"gradient/layer{layer}/weight", gradient, "gradients")
        self.network.descend(RATE, weights, biases)
        self._apply()

    def prune(self, scores: list[NDArray[np.float64]]) -> None:
        """Makes the weights with the least scores zero."""
        kept = np.concatenate([s[m > 0] for s, m in zip(scores, self.masks, strict=True)])
        limit = np.quantile(kept, SHARE)
        for mask, score in zip(self.masks, scores, strict=True):
            mask[score <= limit] = 0
        self._apply()

    def _apply(self) -> None:
        for weight, mask in zip(self.network.weights, self.masks, strict=True):
            weight *= mask


def scores_in(run: Path, last_step: int, layers: int) -> list[NDArray[np.float64]]:
    """The mean |weight × gradient| of each weight over the captured steps of the last round."""
    trial = create_trial(str(run))
    steps = range(last_step - LAST + 1, last_step + 1)

    def products(layer: int) -> Iterator[NDArray[np.float64]]:
        weight, gradient = (
            trial.tensor(f"{what}layer{layer}/weight") for what in ("", "gradient/")
        )
        for step in steps:
            values = (each.value(step, mode=modes.TRAIN) for each in (weight, gradient))
            yield np.abs(np.prod([np.asarray(value, np.float64) for value in values], axis=0))

    return [np.mean([*products(layer)], axis=0) for layer in range(layers)]


def run(out: Path, *, small: bool = False) -> Shown:
    """Prunes until the rule fires. The small form has a smaller network and fewer steps."""
    if find_rule("PruningDone") is None:
        load_files(HERE.parent / "rules_custom" / "pruning.py")
    pruning = Pruning(out / "run", 16 if small else 64)
    steps = 60 if small else 150
    whole = pruning.weights
    rounds = [(whole, pruning.train(10 * steps))]
    fired = None
    while fired is None and len(rounds) <= MOST_ROUNDS:
        scores = scores_in(pruning.out, LAST * len(rounds) - 1, len(pruning.masks))
        pruning.prune(scores)
        rounds.append((pruning.weights, pruning.train(steps)))
        found = document(check(open_storage(pruning.out), read_watch(HERE / "watch.yaml"))[0])
        fired = found["rules"][0]["FiredAt"]
    pruning.hook.close()
    best = max(accuracy for _, accuracy in rounds)
    left, accuracy = rounds[-2] if fired else rounds[-1]
    figures = {
        "weights of the network": f"{whole:,}",
        "accuracy before pruning": f"{rounds[0][1]:.1%}",
        "rounds until the rule fired": str(len(rounds) - 1) if fired else "it did not",
        "weights left in the round before": f"{left:,} (-{1 - left / whole:.1%})",
        "accuracy there": f"{accuracy:.1%}",
        "accuracy when it fired": f"{rounds[-1][1]:.1%} (best {best:.1%})",
    }
    lines = {
        "weights left": [(at, left / whole) for at, (left, _) in enumerate(rounds)],
        "accuracy": [(at, accuracy) for at, (_, accuracy) in enumerate(rounds)],
    }
    return Shown(figures, chart("Pruning until accuracy drops", "round", lines))
