"""Gradients that are computed but never used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
from torch.nn.parameter import is_lazy

from tocsin_hooks.guard import Guard
from tocsin_hooks.script_line import script_line
from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import version_of
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.contracts.remembered import Remembered

_ENOUGH = 50  # in a row, from the start on: with loss scaling the first updates are skipped
_SURE = 200  # so many come before training, at most, to learn of its gradients
_MOST = 64  # parameters that are looked at


class DiscardedGradients:
    """Recognises a model that is never updated: its gradients are cleared, and its weights stay.

    A backward pass adds to the gradient that a parameter has, or makes a new one where it has none.
    So a new one in each pass means that the script clears them. Looks until an optimizer updates; a
    loop that updates by itself changes the weights.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._handles: list[Any] | None = None  # none before the first pass
        self._remembered = Remembered()
        self._latest: dict[int, tuple[Callable[[], Any], int]] = {}  # gradients, by parameters
        self._discarded = Counter[int]()
        self._place = ""

    def model_called(self, event: events.ModelCalled) -> None:
        """Look at passes of training with several samples: gradients of single ones may be summed
        up by the script."""
        root = event.model
        if not event.trains or event.alone:
            return
        if self._handles is None:
            self._remembered.remember(root)
            self._handles = [
                each.register_post_accumulate_grad_hook(self._arrived)
                for each in [*root.parameters()][-_MOST:]
                if each.requires_grad and each.is_leaf and not is_lazy(each)
            ]
            return
        if not self._handles:
            return
        self._place = script_line()
        if self._count >= _SURE:
            self._judge(root)

    def training_ends(self, event: events.TrainingEnds) -> None:
        if self._handles and self._count >= _ENOUGH and event.model is not None:
            self._judge(event.model)
        self._end()

    def update_begins(self, _: events.UpdateBegins) -> None:
        self._end()

    def other_update_begins(self, _: events.OtherUpdateBegins) -> None:
        self._end()

    def _judge(self, root: Any) -> None:
        if not self._remembered.any_changed(root):
            self._found("optimizer_step_missing", self._place)
        self._end()

    @property
    def _count(self) -> int:
        return max(self._discarded.values(), default=0)

    def _end(self) -> None:
        """Handle an update, or the last step."""
        for handle in self._handles or ():
            handle.remove()
        self._handles = []
        self._latest.clear()
        self._discarded.clear()

    def _arrived(self, parameter: Any) -> None:
        """Record that a gradient was computed."""
        with Guard(self._found.step.hook.trouble, "gradients are not checked"):
            gradient, key = parameter.grad, id(parameter)
            if not self._handles or gradient is None or gradient.layout != torch.strided:
                return  # sums of sparse gradients are other tensors
            before = self._latest.get(key)
            self._latest[key] = ref(gradient), version_of(gradient)
            if before is not None:
                was, version = before
                self._discarded[key] += was() is not gradient or version_of(gradient) > version + 1
