"""Losses of training, known again in evaluations that call no loss function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tocsin_hooks.torch.loss_calls import LossCall
from tocsin_hooks.torch.tape import RecordedCall, Tape

_JUDGES = frozenset({"eq", "ne", "__eq__", "__ne__"})
_TWO_CLASSES = "binary_cross_entropy"
_MOST_RECIPES = 64


@dataclass(frozen=True)
class _Called:
    """A loss function that got an output of the model as it is, and classes.

    ``arguments``: all others; ``prediction``, ``label``: the forms of those of a sample.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    prediction: tuple[int, ...]
    label: tuple[int, ...]
    place: str
    module: str | None

    def loss(self, output: Any, labels: Any) -> LossCall | None:
        """The loss of another output with these labels; None if they are none."""
        samples = output.numel() // prod(self.prediction)
        fits = labels.numel() == samples * prod(self.label) and output.is_contiguous()
        if not samples or not fits:
            return None
        prediction = output.detach().reshape(samples, *self.prediction)
        target = labels.detach().reshape(samples, *self.label)
        binary = self.function.__name__.startswith(_TWO_CLASSES)
        if target.is_floating_point() and not binary:
            return None
        target = target.to(prediction.dtype if binary else torch.int64)
        ignored = target == self.arguments.get("ignore_index", -100)
        most = 1 if binary else prediction.shape[1] - 1
        if bool(((target < 0) | (target > most)).logical_and(~ignored).any()):
            return None  # a device would end the process
        arguments = {**self.arguments, "input": prediction, "target": target}
        with torch.no_grad():
            value = self.function(**arguments)
        return LossCall(self.function, arguments, value, self.place, self.module)


class KnownLosses:
    """The losses that are compared in training.

    A loss that a script computes itself is known by the calls that lead to it. Where a script
    compares classes, as an accuracy does, their loss is computed as in training.
    """

    def __init__(self) -> None:
        self._computed: dict[int, tuple[str, bool]] = {}
        self._called: dict[int, _Called] = {}  # by the place of the output
        self._evaluates = False  # by functions that compute losses

    def __bool__(self) -> bool:
        return bool(self._computed or self._called)

    def computed(self, place: str, tape: Tape, loss: Any) -> None:
        """``loss`` was computed by hand in training; ``place``: where gradients were."""
        for at, recipe in enumerate(tape.recipes_of(loss)):
            if len(self._computed) < _MOST_RECIPES:
                self._computed.setdefault(recipe, (place, not at))

    def evaluated(self) -> None:
        """The script has called a loss function in an evaluation."""
        self._evaluates = True

    def called(self, call: LossCall, outputs: Sequence[Any]) -> None:
        """A loss function was called in training, after ``outputs`` of the model."""
        binary = call.name.startswith(_TWO_CLASSES)
        if not (binary or call.has_classes) or call.prediction.dim() <= call.has_classes:
            return
        for place, output in enumerate(outputs):
            if place not in self._called and _is_same(output, call.prediction):
                others = {n: v for n, v in call.arguments.items() if n not in ("input", "target")}
                form, label = tuple(call.prediction.shape[1:]), tuple(call.target.shape[1:])
                made = _Called(call.function, others, form, label, call.place, call.module)
                self._called[place] = made

    def loss(self, tape: Tape, found: Any) -> tuple[str, bool] | None:
        """Which loss of training ``found`` is, and whether all of it: not a multiple."""
        if not (isinstance(found, torch.Tensor) and found.numel() == 1):
            return None
        recipe = tape.recipe(found)
        return None if recipe is None else self._computed.get(recipe)

    def judged(self, tape: Tape, call: RecordedCall) -> LossCall | None:
        """The loss by the classes that ``call`` compares with those that were predicted."""
        name = getattr(call.function, "__name__", "")
        if self._evaluates or name not in _JUDGES or len(call.args) != 2:
            return None
        known: list[Any] = []
        others: list[Any] = []
        for each in call.args:
            if isinstance(each, torch.Tensor):
                (known if tape.recipe(each) is not None else others).append(each)
        places = tape.sources(known[0]) if len(known) == len(others) == 1 else frozenset()
        place = next(iter(places)) if len(places) == 1 else -1
        made = self._called.get(place)
        return made.loss(tape.outputs[place], others[0]) if made is not None else None


def _is_same(output: Any, prediction: Any) -> bool:
    """Whether a prediction is an output as it is, but for its form."""
    if not (output.numel() == prediction.numel() and output.dtype == prediction.dtype):
        return False
    contiguous = output.is_contiguous() and prediction.is_contiguous()
    return bool(contiguous and output.data_ptr() == prediction.data_ptr())
