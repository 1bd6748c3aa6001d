"""What functions of PyTorch compare as losses: predictions and labels."""

from __future__ import annotations

from collections import Counter

from tocsin.model import Mode, Role

from tocsin_hooks.torch.captured import StepInHand
from tocsin_hooks.torch.loss_calls import LossCall
from tocsin_hooks.torch.names import Name

_MOST_CALLS = 4  # of one function, after one forward pass
_LARGEST = 1 << 20  # elements of predictions


class Operands:
    """Captures them in the first forward pass of a saved step, under the function's name.

    Modules that are losses show what they compare themselves.
    """

    def __init__(self, step: StepInHand) -> None:
        self._step = step
        self._calls = Counter[str]()

    def begin_pass(self) -> None:
        self._calls.clear()

    def called(self, call: LossCall) -> None:
        """A function has computed a loss in a saved step."""
        trains = self._step.mode is Mode.TRAIN
        learns = call.value.requires_grad or not trains
        if call.module is not None or self._step.passes != 1 or not learns:
            return
        number = self._calls[call.name]
        self._calls[call.name] += 1
        if number >= _MOST_CALLS:
            return
        again = f"_{number}" if number else ""
        if call.prediction.numel() <= _LARGEST:
            name = f"{call.name}_input_0{again}"
            predictions = Name(name, ("predictions",), Role.PREDICTION, None)
            self._step.add_prediction(predictions, call.prediction)
        labels = Name(f"{call.name}_input_1{again}", ("labels",), Role.LABEL, None)
        self._step.add_named([(labels, call.target)])
