"""Finds layers that take the samples of a batch for the steps of a sequence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tocsin_hooks.torch.callbacks import safely
from tocsin_hooks.torch.calls.loss_call import LossCall

_LOOKS = 3  # at passes of training
_SEQUENCES = (nn.RNNBase, nn.MultiheadAttention)


class BatchAxis:
    """Looks at recurrent layers and attention without ``batch_first``, whose first axis is time.

    Where that axis has as many places as there are labels, and the next one has others, the layer
    goes from sample to sample. Labels of each step of a sequence are not judged: there either axis
    may be time.
    """

    def __init__(self, hook: Any) -> None:
        self._hook = hook
        self._looks = 0
        self._handles: list[Any] = []
        self._given: set[tuple[int, int]] = set()

    def forward_begins(self, root: Any) -> None:
        self.forget()
        if self._looks < _LOOKS:
            self._looks += 1
            found = (each for each in root.modules() if isinstance(each, _SEQUENCES))
            by_time = [each for each in found if not each.batch_first]
            seen = safely(self._hook, self._seen)
            self._handles = [each.register_forward_pre_hook(seen) for each in by_time]

    def forward_ends(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def forget(self) -> None:
        self.forward_ends()
        self._given.clear()

    def _seen(self, _: Any, args: Any) -> None:
        if args and isinstance(args[0], torch.Tensor) and args[0].dim() == 3:
            self._given.add(tuple(args[0].shape[:2]))

    def broken(self, call: LossCall) -> Iterator[str]:
        """The contract that a loss of the pass breaks, if it does."""
        samples, *others = call.target.shape or (1,)
        if any(
            first == samples != second > 1 and second not in others for first, second in self._given
        ):
            yield "samples_mixed"
