"""Layers that are not trained, and have never been."""

from __future__ import annotations

import atexit
import math
import weakref
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from tocsin.model import Mode

from tocsin_hooks import Hook
from tocsin_hooks.drawn import ENOUGH, MOST, MOST_OF_MODEL, is_uniform
from tocsin_hooks.guard import Guard
from tocsin_hooks.keras.contracts import save_contracts
from tocsin_hooks.script_line import script_line

_CONTRACT = "frozen_random_weights"
_LATE = 1000  # steps of training, after which what is frozen at first has thawed


@dataclass(eq=False)
class FrozenBody:
    """Judges most of a model that is frozen at random: in a late step of training, or at the end.

    Until then it may thaw in another ``fit``. The end is that of the run if the script closes it,
    else that of the interpreter, for which the run is kept open.
    """

    _judged: bool = False
    _hook: Hook | None = None  # while it waits for the end
    _model: weakref.ref[Any] | None = None
    _place: str = ""

    @property
    def waits(self) -> bool:
        """Return whether the run is to be kept open."""
        return self._hook is not None

    def begins(self) -> None:
        """A ``fit`` begins."""
        self._hook = self._model = None
        atexit.unregister(self.end)

    def step(self, hook: Hook, model: Any) -> None:
        """The current step is of training, and saved."""
        if not self._judged and hook.position.get(Mode.TRAIN.name, 0) > _LATE:
            self._judged = True
            if is_frozen_at_random(model):
                save_contracts(hook, [_CONTRACT])

    def ends(self, hook: Hook, model: Any) -> None:
        """A ``fit`` ends."""
        if not self._judged and is_frozen_at_random(model):
            self._hook, self._model, self._place = hook, weakref.ref(model), script_line()
            atexit.register(self.end)

    def end(self) -> None:
        """Report, once, layers that are still frozen after the last ``fit``."""
        hook, model = self._hook, self._model() if self._model is not None else None
        self.begins()
        if hook is None:
            return
        with Guard(hook.trouble, "frozen layers are not checked"):
            self._judged = True
            if (model is None or is_frozen_at_random(model)) and hook.begin(Mode.EVAL):
                save_contracts(hook, [_CONTRACT], self._place)
            hook.end()


def is_frozen_at_random(model: Any) -> bool:
    """Return whether most of a model that is trained is not trainable and is as it was drawn, as
    that of an application with ``weights=None``."""
    size = sum(map(_size, model.weights))
    trained = sum(map(_size, model.trainable_weights))
    if not 0 < trained <= (1 - MOST_OF_MODEL) * size:
        return False
    layers = [each for each in model._flatten_layers() if not each.trainable]
    frozen = [each for each in layers if _table(each) is not None]
    drawn = sum(_size(_table(each)) for each in frozen if _is_as_drawn(each))
    return 0 < MOST_OF_MODEL * sum(_size(_table(each)) for each in frozen) <= drawn


def _table(layer: Any) -> Any:
    """Return the kernel or embedding matrix of a layer; None without one."""
    return getattr(layer, "kernel", getattr(layer, "embeddings", None))


def _size(variable: Any) -> int:
    return math.prod(variable.shape)


def _is_as_drawn(layer: Any) -> bool:
    """Return whether a kernel is one of its initializer's, as of Glorot and Bengio, AISTATS 2010,
    or the vectors of tokens are, which lie evenly between two bounds."""
    how: Any = getattr(layer, "kernel_initializer", getattr(layer, "embeddings_initializer", None))
    table = _table(layer)
    bound = _bound(how, table.shape)
    if bound is None or _size(table) < ENOUGH:
        return False
    weights = np.ravel(keras.ops.convert_to_numpy(table))
    return is_uniform(weights[:: -(-weights.size // MOST)], bound)


def _bound(how: Any, shape: tuple[int, ...]) -> float | None:
    """The bound on both sides of 0 between which an initializer draws evenly; None of others."""
    if isinstance(how, keras.initializers.RandomUniform):
        return float(how.maxval) if how.maxval == -how.minval > 0 else None
    if not isinstance(how, keras.initializers.VarianceScaling) or how.distribution != "uniform":
        return None
    *places, inputs, outputs = shape
    fans = math.prod(places) * inputs, math.prod(places) * outputs
    fan = {"fan_in": fans[0], "fan_out": fans[1]}.get(how.mode, sum(fans) / 2)
    return math.sqrt(3 * how.scale / max(1.0, fan))
