"""Logarithms, square roots and quotients that are not finite, on the way to a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import argument_of, divisor_of, inputs_of, name_of, result_of
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import before_views, nodes_of

_LIMITED = frozenset({torch.log, torch.Tensor.log, torch.sqrt, torch.Tensor.sqrt})
_LIMITED |= {torch.div, torch.Tensor.div, torch.true_divide, torch.Tensor.__truediv__}
_MOST_CALLS = 64  # of a loss
_MOST_NODES = 500
_CAN_BE_ZERO = frozenset({autograd.SIGMOID, autograd.SOFTMAX})


class UndefinedValues:
    """Records where a script divides, and takes logarithms and roots, until the backward pass.

    Reads the arguments, so it waits for the device.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._calls: dict[Any, str] = {}  # nodes, with the lines

    def called(self, event: events.Called) -> None:
        node = getattr(event.found, "grad_fn", None) if event.function in _LIMITED else None
        by_tensor = any(isinstance(each, torch.Tensor) for each in event.args[-1:])
        if node is not None and by_tensor and len(self._calls) < _MOST_CALLS:
            self._calls[node] = script_line()

    def backward(self, event: events.Backward) -> None:
        """Judge the recorded values before gradients are computed."""
        loss, calls, self._calls = event.loss, self._calls, {}
        if not calls or not isinstance(loss, torch.Tensor):
            return
        for node, contract in undefined_in(loss):
            if node in calls:
                self._found(contract, calls[node])

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._calls.clear()


def undefined_in(loss: Any) -> Iterator[tuple[Any, str]]:
    """Yield the nodes of a loss that give or will give what is not finite, each with its
    contract."""
    for node in nodes_of(loss.grad_fn, _MOST_NODES):
        if (contract := _broken_by(node, loss)) is not None:
            yield node, contract


def _are_roots_of_less(roots: Any) -> Any:
    """Return whether some are of 0 or of a negative number; all are NaN where weights are NaN."""
    undefined = roots.isnan()
    return (roots == 0).any() | (undefined.any() & ~undefined.all())


def _broken_by(node: Any, loss: Any) -> str | None:
    if name_of(node) == autograd.SQRT:
        found = result_of(node)
        return "sqrt_of_zero" if found is not None and bool(_are_roots_of_less(found)) else None
    if name_of(node) == autograd.DIV:
        divisor = divisor_of(node)
        return "division_by_zero" if divisor is not None and bool((divisor == 0).any()) else None
    if name_of(node) != autograd.LOG:
        return None
    argument = argument_of(node)
    if argument is not None and bool((argument <= 0).any()):
        return "log_of_zero"
    # The weights may be NaN since an earlier step, and then so is the argument.
    given = name_of(before_views(next(iter(inputs_of(node)), None)))
    broken = given in _CAN_BE_ZERO and not bool(loss.detach().isfinite().all())
    return "log_of_zero" if broken else None
