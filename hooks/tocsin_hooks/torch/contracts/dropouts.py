"""Dropout that drops too much, or what is to be predicted."""

from __future__ import annotations

from typing import Any

from tocsin_hooks.torch import events
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import before_views

_MOST_DROPPED = 0.85  # of a layer: more is a share that is to be kept


class Dropouts:
    """Follows what dropouts give in training, until a loss compares it."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._nodes = set[Any]()

    def loss_forgotten(self, _: events.LossForgotten) -> None:
        self._nodes.clear()

    def dropped(self, event: events.Dropped) -> None:
        if self._found.step.evaluates:
            return
        if event.found.grad_fn is not None:  # else the inputs are dropped, which need no gradients
            self._nodes.add(event.found.grad_fn)
        if event.share >= _MOST_DROPPED:
            self._found("dropout_too_large")

    def loss_computed(self, event: events.LossComputed) -> None:
        if self._found.step.saving and before_views(event.prediction.grad_fn) in self._nodes:
            self._found("dropout_on_output", event.place)
