"""Contracts on the autograd graph of a loss."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import inputs_of, name_of, parameter_of
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.overlaps import broken_by_overlap
from tocsin_hooks.torch.contracts.signs import broken_by_signs
from tocsin_hooks.torch.contracts.softmaxes import broken_by_softmax
from tocsin_hooks.torch.graph import before_views, nodes_of

_LAYERS = frozenset({autograd.CONVOLUTION, autograd.LINEAR}) | autograd.MATRIX_PRODUCTS
_MOST_NODES = 1000


class LossGraphs:
    """Checks the graphs of the first losses of saved steps, before gradients are computed."""

    def __init__(self, found: Findings) -> None:
        self._found = found

    def backward(self, event: events.Backward) -> None:
        loss, place = event.loss, script_line()
        if not self._found.step.saving or not isinstance(loss, torch.Tensor):
            return
        if self._found.looks(f"graph of {place}"):
            overlap = broken_by_overlap(loss, event.outputs)
            for contract in chain(broken_by_softmax(loss), overlap, broken_by_signs(loss)):
                self._found.count(contract, place)
            if any(map(_is_of_sigmoid, nodes_of(loss.grad_fn, _MOST_NODES))):
                self._found.count("sigmoid_between_layers", place)


def _is_of_sigmoid(node: Any) -> bool:
    """Return whether it is a linear layer or a convolution after a sigmoid."""
    if name_of(node) not in _LAYERS:
        return False
    before = [before_views(each) for each in inputs_of(node)]
    weighs = any(parameter_of(each) is not None for each in before)
    return weighs and any(name_of(each) == autograd.SIGMOID for each in before)
