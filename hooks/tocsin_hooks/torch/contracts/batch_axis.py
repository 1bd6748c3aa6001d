"""Finds layers that treat the samples of a batch as the steps of a sequence."""

from __future__ import annotations

from typing import Any

import torch
from tocsin.model import Mode
from torch import nn

from tocsin_hooks.torch import events
from tocsin_hooks.torch.callbacks import safely
from tocsin_hooks.torch.contracts.findings import Findings

_LOOKS = 3  # at passes of training
_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention)


class BatchAxis:
    """Checks recurrent layers and attention without ``batch_first``, whose first axis is time.

    Where that axis has as many places as there are labels, and the next one has others, the layer
    goes from sample to sample. Labels of each step of a sequence are not judged: there either axis
    may be time.
    """

    def __init__(self, found: Findings) -> None:
        self._found, self._step = found, found.step
        self._looks = 0
        self._handles: list[Any] = []
        self._given: set[tuple[int, int]] = set()

    def model_called(self, event: events.ModelCalled) -> None:
        if not (event.trains and event.first):
            return
        self._forget()
        if self._looks < _LOOKS:
            self._looks += 1
            found = (each for each in event.model.modules() if isinstance(each, _SEQUENCES))
            by_time = [each for each in found if not each.batch_first]
            seen = safely(self._step.hook, self._seen)
            self._handles = [each.register_forward_pre_hook(seen) for each in by_time]

    def pass_ends(self, _: events.PassEnds) -> None:
        self._end()

    def pass_forgotten(self, _: events.PassForgotten) -> None:
        self._forget()

    def _end(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _forget(self) -> None:
        self._end()
        self._given.clear()

    def _seen(self, _: Any, args: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].dim() == 3:
            self._given.add(tuple(args[0].shape[:2]))

    def loss_computed(self, event: events.LossComputed) -> None:
        if not self._given or not self._step.saving or self._step.mode is not Mode.TRAIN:
            return
        samples, *others = event.target.shape or (1,)
        if any(
            first == samples != second > 1 and second not in others for first, second in self._given
        ):
            self._found.count("samples_mixed", event.place)
