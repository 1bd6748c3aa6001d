"""The roles of Gluon's blocks and parameters in a model."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from mxnet import gluon
from mxnet.ndarray import NDArray

from tocsin_hooks.guard import Guard, Troubles

_KINDS = {
    gluon.nn.LeakyReLU: "leakyrelu",
    gluon.nn.PReLU: "prelu",
    gluon.nn.ELU: "elu",
    gluon.nn.SELU: "selu",
    gluon.nn.GELU: "gelu",
    gluon.nn.Swish: "swish",
}
_FUNCTION = re.compile(r"\((relu|sigmoid|tanh|softrelu|softsign)\)$")


def activation(block: Any) -> str | None:
    """Return which activation function a block is; None if it is not one."""
    if isinstance(block, gluon.nn.Activation):
        # All functions have one class; how it is printed, Activation(relu), says which.
        found = _FUNCTION.search(repr(block))
        return found and found[1]
    return next((kind for of, kind in _KINDS.items() if isinstance(block, of)), None)


def inside(block: Any) -> list[Any]:
    """Return all blocks inside a block, each once, without itself."""
    found: dict[int, Any] = {}
    block.apply(lambda each: found.setdefault(id(each), each))  # children first
    return [each for each in found.values() if each is not block]


def arrays(values: Any) -> Iterator[Any]:
    """Yield all arrays among a block's inputs or outputs, which may be nested lists of them.

    While a hybridized block is compiled there are symbols in their place, and so there are none.
    """
    if isinstance(values, NDArray):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from arrays(value)


def collection_of(parameter: str) -> str | None:
    """Return the collection that smdebug's patterns put a parameter in."""
    return "weights" if "weight" in parameter else "biases" if "bias" in parameter else None


def rank_and_size() -> tuple[int, int]:
    """This worker and how many there are, if the script trains with Horovod."""
    horovod = sys.modules.get("horovod.mxnet")
    with Guard(Troubles().add, "Horovod does not say this worker's rank"):
        if horovod is not None and horovod.is_initialized():
            return horovod.rank(), horovod.size()
    return 0, 1
