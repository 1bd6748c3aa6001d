"""The origin of a loss: marks on the nodes of autograd's graph."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from tocsin_hooks.torch import autograd
from tocsin_hooks.torch.autograd import edges_of, name_of, output_number

Source = Literal["module", "returned", "recorded", "backward"]

_KEY = "tocsin"
_CALL = "tocsin.call"
_TIMES_A_NUMBER = frozenset({autograd.MUL, autograd.DIV, autograd.TO_DTYPE})
_REDUCTIONS = frozenset({autograd.MEAN, autograd.SUM})


class Origin(NamedTuple):
    """A loss module's, what the model returned, what the script recorded, or what a backward
    pass began at. ``name`` is what it is saved as; of what was returned, its place.
    """

    source: Source
    name: str


def mark(value: Any, origin: Origin) -> None:
    """Record the origin of a tensor on the node that computed it: the tensor may be gone when its
    multiple is differentiated.
    """
    if value.grad_fn is not None:
        value.grad_fn.metadata[_KEY, output_number(value)] = origin


def mark_call(value: Any, call: object) -> None:
    """Record which function computed a loss."""
    if value.grad_fn is not None:
        value.grad_fn.metadata[_CALL] = call


def call_of(loss: Any) -> tuple[Any, bool] | None:
    """Return the marked call that computed a loss, or one that it is a multiple or the mean of; and
    whether it is that very loss.
    """
    node, same = loss.grad_fn, True
    while node is not None:
        found = node.metadata.get(_CALL)
        if found is not None:
            return found, same
        inner = edges_of(node)
        if len(inner) != 1 or name_of(node) not in _TIMES_A_NUMBER | _REDUCTIONS:
            return None
        node, same = inner[0][0], False
    return None


def is_sum(loss: Any) -> bool:
    """Return whether a script computed a loss of several parts: no function, module or model gave
    it."""
    return call_of(loss) is None and origin(loss) is None


def origin_of(value: Any) -> Origin | None:
    """Return the mark of this very tensor."""
    node = value.grad_fn
    return None if node is None else node.metadata.get((_KEY, output_number(value)))


def origin(loss: Any) -> Origin | None:
    """Return the mark of a tensor, or of the one that was multiplied by a number to give it."""
    node, place = loss.grad_fn, output_number(loss)
    while node is not None:
        found: Origin | None = node.metadata.get((_KEY, place))
        if found is not None:
            return found
        inner = edges_of(node)
        if len(inner) != 1 or name_of(node) not in _TIMES_A_NUMBER:
            return None
        node, place = inner[0]
    return None
