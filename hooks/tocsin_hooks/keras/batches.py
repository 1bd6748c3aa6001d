"""What a Keras model was given in a batch, what it was to predict, and what it predicted."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from tocsin.model import Role

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard, Report

_VISIBLE = keras.backend.backend() == "torch"
_ARGUMENTS = ("x", "y", "y_pred")
_MOST_TENSORS = 4  # of inputs, and of outputs
_MOST_ELEMENTS = 1 << 20  # of one


@dataclass(frozen=True)
class SeenBatch:
    """The arguments of ``compute_loss``: tensors, or lists and dicts of them."""

    inputs: Any
    labels: Any
    predictions: Any


@dataclass
class BatchWatch:
    """Looks at the batches of a model whose loss is computed, while it watches one.

    That is possible with the torch backend. JAX and TensorFlow compile the step. ``first`` is the
    first batch since it was None.
    """

    first: SeenBatch | None = None
    last: SeenBatch | None = None
    _model: Any = None

    def begin(self, model: Any, trouble: Report) -> None:
        self.end()
        if not _VISIBLE or getattr(model, "jit_compile", False):
            return
        compute = model.compute_loss

        @functools.wraps(compute)
        def compute_loss(*args: Any, **kwargs: Any) -> Any:
            with Guard(trouble, "a batch of Keras is not captured"):
                given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
                self.last = SeenBatch(*map(given.get, _ARGUMENTS))
                self.first = self.first or self.last
            return compute(*args, **kwargs)

        self._model = model
        vars(model)["compute_loss"] = compute_loss  # past Keras, which tracks what is assigned

    def end(self) -> None:
        if self._model is not None:
            vars(self._model).pop("compute_loss", None)
        self.first = self.last = self._model = None


def save_batch(hook: Hook, batch: SeenBatch) -> None:
    """Save ``inputs``, ``labels`` and ``predictions``; of several ``inputs/<name or number>``."""
    for name, role, value in (
        ("inputs", Role.INPUT, batch.inputs),
        ("labels", Role.LABEL, batch.labels),
        ("predictions", Role.PREDICTION, batch.predictions),
    ):
        for label, tensor in _tensors(value):
            plan = hook.plan(f"{name}{label}", name, role=role)
            if plan is not None:
                hook.capture(plan, tensor.detach())


def _tensors(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        named = [(f"/{key}", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        named = [(f"/{number}", each) for number, each in enumerate(value)]
    else:
        named = [("", value)]
    for label, each in named[:_MOST_TENSORS]:
        if hasattr(each, "detach") and 0 < each.numel() <= _MOST_ELEMENTS:
            yield label, each
