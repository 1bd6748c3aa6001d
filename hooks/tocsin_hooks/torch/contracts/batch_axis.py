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
_OF_PICTURES = 4  # axes
_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention)


class BatchAxis:
    """Checks which axis recurrent layers and attention take as time, by ``batch_first``.

    Where that axis has as many places as there are pictures, and the axis of samples has others,
    the layer goes from sample to sample. Without pictures labels are counted, if ``batch_first`` is
    not set. Labels of each step of a sequence are not judged: there either axis may be time.
    """

    def __init__(self, found: Findings) -> None:
        self._found, self._step = found, found.step
        self._looks = 0
        self._handles: list[Any] = []
        self._given: set[tuple[int, int]] = set()  # steps and samples
        self._pictures = 0

    def model_called(self, event: events.ModelCalled) -> None:
        if not (event.trains and event.first):
            return
        self._forget()
        if self._looks < _LOOKS:
            self._looks += 1
            found = (each for each in event.model.modules() if isinstance(each, _SEQUENCES))
            seen = safely(self._step.hook, self._seen)
            self._handles = [each.register_forward_pre_hook(seen) for each in found]

    def inputs_given(self, event: events.InputsGiven) -> None:
        first = next(iter(event.inputs.tensors), None)
        self._pictures = len(first) if first is not None and first.dim() == _OF_PICTURES else 0

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

    def _seen(self, layer: Any, args: Any) -> None:
        given = args[0] if args and (self._pictures or not layer.batch_first) else None
        if isinstance(given, torch.Tensor) and given.dim() == 3:
            one, other, _ = given.shape
            self._given.add((other, one) if layer.batch_first else (one, other))

    def loss_computed(self, event: events.LossComputed) -> None:
        if not self._given or not self._step.saving or self._step.mode is not Mode.TRAIN:
            return
        count, *others = event.target.shape or (1,)
        if self._pictures:
            count, others = self._pictures, []
        if any(
            steps == count and 1 < samples not in others and samples % count
            for steps, samples in self._given
        ):
            self._found.count("samples_mixed", event.place)
