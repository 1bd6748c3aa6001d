"""Operands of PyTorch's loss functions: predictions and labels."""

from __future__ import annotations

from collections import Counter

from tocsin.model import Mode

from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.calls.pairs import UNPAIRED
from tocsin_hooks.torch.capture.captured import CurrentStep
from tocsin_hooks.torch.names import compared_names

_MOST_CALLS = 4  # of one function, after one forward pass
_LARGEST = 1 << 20  # elements of predictions


class Operands:
    """Captures them in the first forward pass of a saved step, under the function's name.

    Modules that are losses show what they compare themselves.
    """

    def __init__(self, step: CurrentStep) -> None:
        self._step = step
        self._calls = Counter[str]()

    def begin_pass(self) -> None:
        self._calls.clear()

    def called(self, call: LossCall) -> None:
        """Capture the predictions and labels of a loss function in a saved step."""
        trains = self._step.mode is Mode.TRAIN
        learns = call.value.requires_grad or not trains
        other = call.module is not None or call.name in UNPAIRED
        if other or self._step.passes != 1 or not learns:
            return
        number = self._calls[call.name]
        self._calls[call.name] += 1
        if number >= _MOST_CALLS:
            return
        predictions, labels = compared_names(call.name, call.arguments, number)
        if call.prediction.numel() <= _LARGEST:
            self._step.add_prediction(predictions, call.prediction)
        self._step.add_named([(labels, call.target)])
