"""Sound trainings: each family on each data set, and ways of training that look like trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.detection.training.setup import Setup

Change = Callable[[Setup], Setup]

ALL_TABLES = ("linear", "mlp relu", "mlp tanh", "mlp sigmoid", "deep relu", "deep tanh", "mlp norm")
IMAGES = ("cnn", "gru", "rnn", "transformer")
TEXTS = ("gru", "rnn", "transformer")
NUMBERS = ("linear", "mlp relu", "mlp tanh", "deep relu", "deep tanh")

# What is usual for a family, and what a data set needs besides: little data, small models.
_FAMILY: dict[str, dict[str, Any]] = {
    "linear": {"optimizer": "sgd", "learning_rate": 0.1},
    "mlp relu": {"optimizer": "momentum", "learning_rate": 0.02},
    "mlp tanh": {"optimizer": "momentum", "learning_rate": 0.02},
    "mlp sigmoid": {"optimizer": "adam", "learning_rate": 0.005},
    "deep relu": {"optimizer": "adam", "learning_rate": 0.002, "layers": 5, "width": 24},
    "deep tanh": {"optimizer": "adam", "learning_rate": 0.002, "layers": 5, "width": 24},
    "mlp norm": {"optimizer": "adam", "learning_rate": 0.002},
    "cnn": {"optimizer": "adam", "learning_rate": 0.005},
    "gru": {"optimizer": "adam", "learning_rate": 0.005, "width": 24, "clip": 1.0},
    "rnn": {"optimizer": "adam", "learning_rate": 0.003, "width": 24, "clip": 1.0},
    "transformer": {
        "optimizer": "adam",
        "learning_rate": 0.005,
        "schedule": "warmup",
        "width": 16,
        "clip": 1.0,
    },
    "gan": {"optimizer": "adam", "learning_rate": 0.002, "steps": 600, "save_interval": 10},
    "xgboost": {"learning_rate": 0.1, "weight_decay": 1.0, "steps": 50, "save_interval": 1},
}
_DATA: dict[str, dict[str, Any]] = {
    "diabetes": {"width": 8, "weight_decay": 0.1, "steps": 200, "save_interval": 4},
    "wine proline": {"width": 8, "weight_decay": 0.1, "steps": 200, "save_interval": 4},
    "iris": {"width": 16, "weight_decay": 0.01, "steps": 200, "save_interval": 4},
    "wine": {"width": 16, "weight_decay": 0.01, "steps": 200, "save_interval": 4},
    "iris width": {"width": 8, "weight_decay": 0.05, "steps": 200, "save_interval": 4},
    "cancer area": {"width": 16, "weight_decay": 0.01, "steps": 200, "save_interval": 4},
    "cancer": {"width": 16, "weight_decay": 0.3, "steps": 120, "save_interval": 3},
}
_LITTLE_DATA: dict[str, dict[str, Any]] = {
    "deep relu": {"layers": 3, "width": 16},
    "deep tanh": {"layers": 3, "width": 16},
    "mlp norm": {"learning_rate": 0.001},
}


def plain(family: str, data: str, seed: int) -> Setup:
    """The usual training of a family on a data set."""
    usual = _FAMILY[family]
    if data in _DATA and family not in ("xgboost", "gan"):
        usual = usual | _DATA[data] | _LITTLE_DATA.get(family, {})
    return Setup(family, data, seed, **usual)


@dataclass(frozen=True)
class Recipe:
    """A way of training, and the families for which it is one; none named: all with gradients."""

    name: str
    change: Change
    families: tuple[str, ...] = ()

    def __call__(self, setup: Setup) -> Setup:
        return replace(self.change(setup), recipe=self.name)


def _with(**changes: Any) -> Change:
    return lambda setup: replace(setup, **changes)


def _small_batches(setup: Setup) -> Setup:
    rate = setup.learning_rate / 4
    return replace(setup, batch_size=4, learning_rate=rate, steps=2 * setup.steps, save_interval=10)


def _few_saves(setup: Setup) -> Setup:
    return replace(setup, save_interval=setup.steps // 20)


def _every_step(setup: Setup) -> Setup:
    return replace(setup, steps=70, save_interval=1, eval_saves=10)


def _fine_tuning(setup: Setup) -> Setup:
    return replace(setup, frozen=1, pretraining=60, learning_rate=setup.learning_rate / 2)


def _plateau(setup: Setup) -> Setup:
    return replace(setup, steps=4 * setup.steps, save_interval=4 * setup.save_interval)


def _accumulation(setup: Setup) -> Setup:
    return replace(setup, batch_size=8, accumulate=4)


RECIPES = (
    Recipe("small batches", _small_batches),
    Recipe("warm-up", _with(schedule="warmup")),
    Recipe("cosine", _with(schedule="cosine")),
    Recipe("cosine restarts", _with(schedule="restarts")),
    Recipe("fine-tuning", _fine_tuning, ("mlp relu", "mlp tanh", "deep relu", "mlp norm", "cnn")),
    Recipe("label noise 10 %", _with(label_noise=0.1)),
    Recipe("label noise 20 %", _with(label_noise=0.2), ("linear", "mlp norm", "cnn", "mlp tanh")),
    Recipe("accumulation", _accumulation),
    Recipe("dropout", _with(dropout=0.3), ("mlp relu", "mlp tanh", "mlp norm", "transformer")),
    Recipe("plateau", _plateau, ("linear", "mlp relu", "mlp tanh")),
    Recipe("few saves", _few_saves),
    Recipe("every step", _every_step),
    Recipe("bfloat16", _with(rounded=True)),
    Recipe("two workers", _with(workers=2), ("linear", "mlp relu", "mlp tanh", "cnn", "mlp norm")),
    Recipe(
        "plain SGD", _with(optimizer="sgd", learning_rate=0.1), ("linear", "mlp relu", "mlp tanh")
    ),
    Recipe("big batches", _with(batch_size=128), ("linear", "mlp relu", "mlp norm", "cnn")),
    Recipe("shallow trees", _with(depth=2), ("xgboost",)),
    Recipe("deeper trees", _with(depth=4, learning_rate=0.08), ("xgboost",)),
)


def fitting(recipe: Recipe, setups: tuple[Setup, ...]) -> Iterator[Setup]:
    """The plain set-ups that fit a recipe."""
    for setup in setups:
        trained_by_gradients = setup.family not in ("gan", "xgboost")
        if setup.family in recipe.families or (not recipe.families and trained_by_gradients):
            yield setup
