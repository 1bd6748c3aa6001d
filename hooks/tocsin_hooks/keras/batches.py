"""The batches of a Keras model: inputs, labels and predictions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from tocsin.model import Role

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard, Report

VISIBLE = keras.backend.backend() == "torch"
"""Whether batches can be seen: JAX and TensorFlow compile the step."""

Named = Sequence[tuple[str, Any]]
Listener = Callable[[Any, Mapping[str, Any]], None]

_ARGUMENTS = ("x", "y", "y_pred")
_MOST_TENSORS = 4  # of inputs, and of outputs
_MOST_ELEMENTS = 1 << 20  # of one


@dataclass(frozen=True)
class SeenBatch:
    """The tensors that ``compute_loss`` got, by what is added to the name of their kind."""

    inputs: Named
    labels: Named
    predictions: Named


@dataclass
class BatchWatch:
    """Looks at the batches of a model whose loss is computed, while it watches one.

    ``first`` is the first batch of an evaluation, if the model ``evaluates``; ``last`` the last one
    of a training. A listener gets the model and what ``compute_loss`` is given.
    """

    first: SeenBatch | None = None
    last: SeenBatch | None = None
    evaluates: bool = False
    _model: Any = None
    _own: Any = None
    _before: Any = None

    def begin(self, model: Any, trouble: Report, listener: Listener) -> None:
        self.end()
        if not VISIBLE or getattr(model, "jit_compile", False):
            return
        compute = model.compute_loss

        @functools.wraps(compute)
        def compute_loss(*args: Any, **kwargs: Any) -> Any:
            with Guard(trouble, "a batch of Keras is not captured"):
                given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
                # Else the script itself evaluates between two batches of a training.
                if self.evaluates or given.get("training") is not False:
                    self._see(given)
                    listener(model, given)
            return compute(*args, **kwargs)

        self._model, self._own = model, compute_loss
        self._before = vars(model).get("compute_loss")  # the script's own
        vars(model)["compute_loss"] = compute_loss  # past Keras, which tracks what is assigned

    def end(self) -> None:
        if self._model is not None and vars(self._model).get("compute_loss") is self._own:
            del vars(self._model)["compute_loss"]
            if self._before is not None:
                vars(self._model)["compute_loss"] = self._before
        self.first = self.last = self._model = self._own = self._before = None
        self.evaluates = False

    def _see(self, given: Mapping[str, Any]) -> None:
        if self.evaluates and self.first is not None:
            return
        seen = SeenBatch(*(tuple(_tensors(given.get(name))) for name in _ARGUMENTS))
        if self.evaluates:
            self.first = seen
        else:
            self.last = seen


def save_batch(hook: Hook, batch: SeenBatch) -> None:
    """Save ``inputs``, ``labels`` and ``predictions``; of several ``inputs/<name or number>``."""
    for name, role, value in (
        ("inputs", Role.INPUT, batch.inputs),
        ("labels", Role.LABEL, batch.labels),
        ("predictions", Role.PREDICTION, batch.predictions),
    ):
        for label, tensor in value:
            plan = hook.plan(f"{name}{label}", name, role=role)
            if plan is not None:
                hook.capture(plan, tensor)


def _tensors(value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors, without their graphs, which would keep all activations alive."""
    if isinstance(value, Mapping):
        named = [(f"/{key}", each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        named = [(f"/{number}", each) for number, each in enumerate(value)]
    else:
        named = [("", value)]
    for label, each in named[:_MOST_TENSORS]:
        if hasattr(each, "detach") and 0 < each.numel() <= _MOST_ELEMENTS:
            yield label, each.detach()
