"""A loss function of training, called with other outputs and their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tocsin_hooks.torch.calls.indexed_outputs import Picked
from tocsin_hooks.torch.calls.loss_call import LossCall

TWO_CLASSES = "binary_cross_entropy"
BY_NUMBERS = frozenset({"huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"})


@dataclass(frozen=True)
class CalledLoss:
    """A loss function that got an output of the model as it is, or what was ``picked`` from it, and
    classes or numbers.

    ``arguments``: all others; ``prediction``, ``label``: the forms of those of a sample.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    prediction: tuple[int, ...]
    label: tuple[int, ...]
    place: str
    module: str | None
    picked: tuple[Any, ...] | None

    @property
    def has_numbers(self) -> bool:
        return self.function.__name__ in BY_NUMBERS

    @property
    def is_binary(self) -> bool:
        return self.function.__name__.startswith(TWO_CLASSES)

    @property
    def classes(self) -> int:
        return 2 if self.is_binary else self.prediction[0]

    def part_of(self, output: Any, picked: Picked | None) -> Any:
        """Return the argument of the function from another output; None if it cannot be indexed in
        the same way.
        """
        if picked is None or (self.picked is None and picked.is_whole):
            return output if self.picked is None else None
        return picked.rows_of(output, self.prediction) if picked.kind == self.picked else None

    def loss(self, output: Any, labels: Any) -> LossCall | None:
        """Return the loss of another output with these labels; None if they are not labels."""
        samples = output.numel() // prod(self.prediction)
        whole = output.is_contiguous() or tuple(output.shape[1:]) == self.prediction
        if not samples or not whole or labels.numel() != samples * prod(self.label):
            return None
        prediction = output.detach().reshape(samples, *self.prediction)
        target = self.target(prediction, labels.detach().reshape(samples, *self.label))
        if target is None:
            return None
        arguments = {**self.arguments, "input": prediction, "target": target}
        with torch.no_grad():
            value = self.function(**arguments)
        return LossCall(self.function, arguments, value, self.place, self.module)

    def target(self, prediction: Any, labels: Any) -> Any:
        """Return the labels in the form that the function takes; None if they are not labels."""
        if self.has_numbers:
            return labels if labels.is_floating_point() else None
        binary = self.is_binary
        if labels.is_floating_point() and not binary:
            return None
        target = labels.to(prediction.dtype if binary else torch.int64)
        ignored = target == self.arguments.get("ignore_index", -100)
        most = 1 if binary else self.prediction[0] - 1
        wrong = ((target < 0) | (target > most)).logical_and(~ignored)
        return None if bool(wrong.any()) else target  # a device would end the process
