"""Model families by name. Those of PyTorch and XGBoost are imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from benchmarks.detection.training.network import Network
from benchmarks.detection.training.samples import Data
from benchmarks.detection.training.setup import Setup

Builder = Callable[[Setup, Data], Network]

NUMPY = {
    "linear": "linear",
    "mlp relu": "relu",
    "mlp tanh": "tanh",
    "mlp sigmoid": "sigmoid",
    "deep relu": "relu",
    "deep tanh": "tanh",
}
TORCH = {
    "mlp norm": "normalised",
    "cnn": "convolutional",
    "gru": "gru",
    "rnn": "rnn",
    "transformer": "transformer",
}
FAMILIES = (*NUMPY, *TORCH, "gan", "xgboost")


def build(setup: Setup, data: Data) -> Network:
    """A new model of the set-up's family, one that is trained by gradients."""
    module, functions = ("perceptron", NUMPY) if setup.family in NUMPY else ("torch_models", TORCH)
    builder: Builder = getattr(import_module(f"{__name__}.{module}"), functions[setup.family])
    return builder(setup, data)
