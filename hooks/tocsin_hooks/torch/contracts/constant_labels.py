"""Labels that are all the same number or the same class."""

from __future__ import annotations

from typing import Any

from tocsin.model import Mode

from tocsin_hooks.torch import autograd, events
from tocsin_hooks.torch.autograd import name_of
from tocsin_hooks.torch.calls.loss_call import LossCall
from tocsin_hooks.torch.contracts.findings import Findings
from tocsin_hooks.torch.graph import before_views, is_multiple_of

LABELS_IDENTICAL = "labels_identical"
_REGRESSIONS = frozenset({"huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"})
_LEAST = 8  # labels of a batch
_ENOUGH, _SAVES = 256, 3  # labels, and saved steps with them: most may be 0 by nature
_CLASSES, _ENOUGH_OF_CLASSES = 3, 1024  # of which one alone is no data set


class ConstantLabels:
    """Checks labels until two differ.

    Judges only a loss that is nothing but the error of the model's output: residuals of equations
    and scores of an opponent are compared with 0 or 1 by nature.
    """

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._call: LossCall | None = None
        self._value: float | None = None
        self._labels = 0
        self._saves = 0
        self._over = False

    def loss_computed(self, event: events.LossComputed) -> None:
        step = self._found.step
        if not self._over and step.saving and step.mode is Mode.TRAIN:
            self._call = event.call

    def backward(self, event: events.Backward) -> None:
        call, self._call = self._call, None
        if call is None or self._over:
            return
        if not _is_the_error(call, event):
            self._over = True
            return
        labels = call.target.detach().flatten()
        value = float(labels[0]) if self._value is None else self._value
        if len(labels) < _LEAST or bool((labels != value).any()):
            self._over = True
            return
        self._value, self._labels, self._saves = value, self._labels + len(labels), self._saves + 1
        enough = _ENOUGH_OF_CLASSES if call.has_classes else _ENOUGH
        if self._labels >= enough and self._saves >= _SAVES:
            self._over = True
            contract = LABELS_IDENTICAL if call.has_classes else "targets_identical"
            self._found(contract, call.place)


def _is_the_error(call: LossCall, event: events.Backward) -> bool:
    """Return whether a loss is the error of a model's output, or a multiple, and nothing else."""
    regresses = call.name in _REGRESSIONS and call.target.shape == call.prediction.shape
    if not (regresses or _is_of_classes(call)):
        return False
    if not any(call.target.stride()):  # one number, expanded on purpose
        return False
    if any(each.requires_grad for each in event.inputs.tensors):
        return False
    prediction, value = _node(call.prediction), _node(call.value)
    is_output = any(before_views(_node(each)) is before_views(prediction) for each in event.outputs)
    return (
        None not in (prediction, value) and is_output and is_multiple_of(_node(event.loss), value)
    )


def _is_of_classes(call: LossCall) -> bool:
    """Return whether a linear layer gives the scores: otherwise the first label may say where a
    positive sample stands."""
    if not call.has_classes or call.prediction.dim() != 2 or call.prediction.shape[1] < _CLASSES:
        return False
    first, ignored = call.target.flatten()[:1], call.arguments.get("ignore_index", -100)
    linear = name_of(before_views(_node(call.prediction))) == autograd.LINEAR
    return linear and not bool((first == ignored).any())


def _node(value: Any) -> Any:
    return getattr(value, "grad_fn", None)
