"""What the training loop asks of a model, whatever it is written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.detection.training.data import Array
from benchmarks.detection.training.setup import Setup


@dataclass(frozen=True, eq=False)
class Activation:
    """What went into an activation function and what came out."""

    kind: str
    input: Array
    output: Array


class Network(Protocol):
    """A model with its parameters, in the order of its layers, as arrays that may be changed."""

    @property
    def parameters(self) -> Mapping[str, Array]: ...

    @property
    def activations(self) -> Mapping[str, Activation]:
        """Those of the last call of ``forward``, by layer."""
        ...

    def forward(self, x: Array, *, train: bool) -> Array:
        """The outputs before softmax: (n, outputs), or (n, length, outputs) for tokens."""
        ...

    def backward(self, slope: Array) -> dict[str, Array]:
        """The gradient of each parameter, from the loss's derivative by the last outputs."""
        ...


def layers(network: Network) -> tuple[str, ...]:
    """The layers that have weights, from the first to the last."""
    return tuple(dict.fromkeys(layer_of(name) for name in network.parameters))


def layer_of(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def spoil_start(network: Network, setup: Setup) -> None:
    """The initial weights as a fault has them; layers of normalisation stay as they are."""
    effects, last = setup.effects, layers(network)[-1]
    for name, values in network.parameters.items():
        if "norm" in name:
            continue
        if "weight" in name:
            if effects.start == "constant":
                values[...] = 0.05
            values *= np.float32({"zero": 0.0, "huge": 30.0, "tiny": 1e-3}.get(effects.start, 1.0))
            if effects.gain_of in name and layer_of(name) != last:
                values *= np.float32(effects.gain)
        elif effects.start in ("zero", "constant"):
            values[...] = 0.0
        elif layer_of(name) != last:
            values += np.float32(effects.bias)


def round_to_bfloat16(network: Network) -> None:
    """Round every parameter to bfloat16's 8 bits, to nearest."""
    for values in network.parameters.values():
        bits = np.ascontiguousarray(values).view(np.uint32)
        values[...] = ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
