"""Finds parts of a model that ``detach`` separates from the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tocsin_hooks.torch.autograd import parameter_of
from tocsin_hooks.torch.graph import nodes_of

_LOOKS = 3  # at one line of a script that cuts off
_MOST_LINES = 64
_MOST_NODES = 2000
_IN_A_ROW = 20  # updates without a gradient


class CutOffs:
    """Follows the parameters by which a detached tensor was computed. Those that an optimizer holds
    and that get no gradient in another way are never trained.

    ``broken`` gets the name of the contract, and the line of the script that cuts them off.
    """

    def __init__(self, broken: Callable[[str, str], None]) -> None:
        self._broken = broken
        self._looks = Counter[str]()
        self._lines: dict[int, str] = {}  # by the identity of a parameter
        self._in_a_row = Counter[int]()

    def detached(self, tensor: Any, place: str) -> None:
        """Handle a ``detach``: a tensor is separated from its graph."""
        if tensor.grad_fn is None or len(self._looks) == _MOST_LINES:
            return
        self._looks[place] += 1
        if self._looks[place] <= _LOOKS:
            for node in nodes_of(tensor.grad_fn, _MOST_NODES):
                leaf = parameter_of(node)
                if isinstance(leaf, torch.nn.Parameter):
                    self._lines.setdefault(id(leaf), place)

    def before_update(self, held: Iterable[Any], has_changed: Callable[[Any], bool]) -> None:
        """Handle the start of an update; ``has_changed``: whether any parameter has changed."""
        for each in held if self._lines else ():
            if id(each) not in self._lines:
                continue
            idle = each.requires_grad and each.grad is None and not has_changed(each)
            self._in_a_row[id(each)] = self._in_a_row[id(each)] + 1 if idle else 0
            if self._in_a_row[id(each)] == _IN_A_ROW:
                self._broken("part_detached", self._lines[id(each)])
