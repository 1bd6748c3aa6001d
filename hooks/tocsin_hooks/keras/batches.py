"""The batches of a Keras model: inputs, labels and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, Protocol

from tocsin.model import WEIGHTED, Role

from tocsin_hooks import Hook
from tocsin_hooks.guard import Report

ARGUMENTS = ("x", "y", "y_pred")
WEIGHTS = "sample_weight"
LOSS = "loss"

Given = Mapping[str, Any]
"""A batch: what is known of ``x``, ``y`` and ``y_pred``, each a tensor, or a list or mapping of
tensors, the weights of its samples, whether the model is ``training``, and with PyTorch the
``loss`` that is minimised."""

Listener = Callable[[Any, Given], None]
"""Gets the model and a batch."""

_KINDS = {"x": Role.INPUT, "y": Role.LABEL, "y_pred": Role.PREDICTION}
_NAMES = {"x": "inputs", "y": "labels", "y_pred": "predictions"}
_MOST_TENSORS = 4  # of inputs, and of outputs
_MOST_ELEMENTS = 1 << 20  # of one


class BatchWatch(Protocol):
    """Observes the batches of a model."""

    def prepare(self, model: Any, trouble: Report) -> None:
        """Keras is going to make the steps of this model."""

    def begin(self, model: Any, trouble: Report, listener: Listener) -> None:
        """They are made: the listener gets their batches until the end."""

    def end(self) -> None:
        """Leave the model as it was; harmless without one."""


def save_batch(hook: Hook, given: Given) -> None:
    """Save ``inputs``, ``labels`` and ``predictions``; of several ``inputs/<name or number>``."""
    for argument in ARGUMENTS:
        name, role = _NAMES[argument], _KINDS[argument]
        kind = WEIGHTED if argument == "y" and given.get(WEIGHTS) is not None else None
        for label, tensor in _tensors(given.get(argument)):
            plan = hook.plan(f"{name}{label}", name, role=role, kind=kind)
            if plan is not None:
                hook.capture(plan, tensor)


def _tensors(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        named = [(f"/{key}", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        named = [(f"/{number}", each) for number, each in enumerate(value)]
    else:
        named = [("", value)]
    for label, each in named[:_MOST_TENSORS]:
        if hasattr(each, "shape") and 0 < prod(each.shape) <= _MOST_ELEMENTS:
            yield label, each
