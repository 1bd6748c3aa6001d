"""Observes the batches of a model without compiled steps: PyTorch."""

from __future__ import annotations

import functools
from typing import Any

from tocsin_hooks.guard import Guard, Report
from tocsin_hooks.keras.batches import ARGUMENTS, LOSS, WEIGHTS, Listener


class EagerWatch:
    """Passes the arguments of a model's ``compute_loss`` on, and what it gives."""

    def __init__(self) -> None:
        self._model: Any = None
        self._own: Any = None
        self._before: Any = None

    def prepare(self, model: Any, trouble: Report) -> None:
        self.end()

    def begin(self, model: Any, trouble: Report, listener: Listener) -> None:
        self.end()
        if getattr(model, "jit_compile", False):
            return
        compute = model.compute_loss

        @functools.wraps(compute)
        def compute_loss(*args: Any, **kwargs: Any) -> Any:
            loss = compute(*args, **kwargs)
            with Guard(trouble, "a batch of Keras is not captured"):
                given = {**dict(zip((*ARGUMENTS, WEIGHTS), args, strict=False)), **kwargs}
                listener(model, {**given, LOSS: loss})
            return loss

        self._model, self._own = model, compute_loss
        self._before = vars(model).get("compute_loss")  # the script's own
        vars(model)["compute_loss"] = compute_loss  # past Keras, which tracks what is assigned

    def end(self) -> None:
        if self._model is not None and vars(self._model).get("compute_loss") is self._own:
            del vars(self._model)["compute_loss"]
            if self._before is not None:
                vars(self._model)["compute_loss"] = self._before
        self._model = self._own = self._before = None
