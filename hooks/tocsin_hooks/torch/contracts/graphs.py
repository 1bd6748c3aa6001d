"""Contracts on the graph that a loss was computed with."""

from __future__ import annotations

from itertools import chain

import torch

from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.overlaps import broken_by_overlap
from tocsin_hooks.torch.contracts.signs import broken_by_signs
from tocsin_hooks.torch.contracts.softmaxes import broken_by_softmax


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
