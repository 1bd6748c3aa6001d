"""Linear models and multi-layer perceptrons, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.network import Activation, Network
from benchmarks.detection.training.samples import Data
from benchmarks.detection.training.setup import Setup

_FUNCTION: dict[str, Callable[[Array], Array]] = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
}
_SLOPE: dict[str, Callable[[Array], Array]] = {
    "relu": lambda a: (a > 0).astype(np.float32),
    "tanh": lambda a: 1 - a * a,
    "sigmoid": lambda a: a * (1 - a),
}
_GAIN = {"relu": 2.0, "tanh": 1.0, "sigmoid": 16.0}  # of the variance 1/inputs (He, Glorot)


def linear(setup: Setup, data: Data) -> Network:
    return Perceptron([], "relu", setup, data)


def relu(setup: Setup, data: Data) -> Network:
    return Perceptron([setup.width] * setup.layers, "relu", setup, data)


def tanh(setup: Setup, data: Data) -> Network:
    return Perceptron([setup.width] * setup.layers, "tanh", setup, data)


def sigmoid(setup: Setup, data: Data) -> Network:
    return Perceptron([setup.width] * setup.layers, "sigmoid", setup, data)


class Perceptron:
    """Dense layers with one activation function between them; inputs are flattened."""

    def __init__(self, hidden: list[int], kind: str, setup: Setup, data: Data) -> None:
        self._kind = kind
        self._dropout = setup.dropout
        self._draw = np.random.default_rng([setup.seed, 2])
        sizes = [data.train.x[0].size, *hidden, data.outputs]
        self._layers = [f"dense{number}" for number in range(len(sizes) - 1)]
        self._parameters: dict[str, Array] = {}
        for layer, inputs, outputs in zip(self._layers, sizes, sizes[1:], strict=False):
            gain = 1.0 if layer == self._layers[-1] else _GAIN[kind]
            weight = self._draw.normal(0, (gain / inputs) ** 0.5, (outputs, inputs))
            self._parameters[f"{layer}.weight"] = weight.astype(np.float32)
            self._parameters[f"{layer}.bias"] = np.zeros(outputs, np.float32)
        self._activations: dict[str, Activation] = {}
        self._inputs: list[Array] = []
        self._masks: list[Array | float] = []

    @property
    def parameters(self) -> Mapping[str, Array]:
        return self._parameters

    @property
    def activations(self) -> Mapping[str, Activation]:
        return self._activations

    def forward(self, x: Array, *, train: bool) -> Array:
        a = x.reshape(len(x), -1)
        self._inputs, self._masks = [], []
        with np.errstate(all="ignore"):
            for layer in self._layers[:-1]:
                z = self._dense(layer, a)
                output = _FUNCTION[self._kind](z).astype(np.float32)
                self._activations[layer] = Activation(self._kind, z, output)
                self._masks.append(self._mask(output.shape) if train and self._dropout else 1.0)
                a = output * self._masks[-1]
            return self._dense(self._layers[-1], a)

    def backward(self, slope: Array) -> dict[str, Array]:
        gradients: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            for number in reversed(range(len(self._layers))):
                layer = self._layers[number]
                gradients[f"{layer}.weight"] = slope.T @ self._inputs[number]
                gradients[f"{layer}.bias"] = slope.sum(axis=0)
                if number:
                    before = self._layers[number - 1]
                    bend = _SLOPE[self._kind](self._activations[before].output)
                    slope = slope @ self._parameters[f"{layer}.weight"]
                    slope = slope * bend * self._masks[number - 1]
        return {name: gradients[name] for name in self._parameters}

    def _dense(self, layer: str, a: Array) -> Array:
        self._inputs.append(a)
        z: Array = a @ self._parameters[f"{layer}.weight"].T + self._parameters[f"{layer}.bias"]
        return z

    def _mask(self, shape: tuple[int, ...]) -> Array:
        kept = self._draw.random(shape) >= self._dropout
        return (kept / (1 - self._dropout)).astype(np.float32)
