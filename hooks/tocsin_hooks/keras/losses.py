"""The losses that a Keras model was compiled with, by its outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from tocsin_hooks.keras.purity import is_pure

_EXACT = 1e-3  # of a loss, what computing it from parts may change
_LEAST_ROWS = 4

Key = str | int | None


@dataclass(frozen=True)
class CompiledLoss:
    """A loss of one output.

    function: takes labels and predictions.
    name: of Keras' own function, ``meansquarederror``; nothing for one of the script's.
    options: with which it was made.
    is_pure: it may be called once more, and nobody notices.
    output: the name of the output, or nothing of a single one; ``keys``: where it stands among
        the labels and predictions of a batch.
    """

    function: Callable[[Any, Any], Any]
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    is_pure: bool = True
    output: str = ""
    keys: tuple[Key, ...] = (None,)

    def of(self, values: Any) -> Any:
        """Its part of all labels, or of all predictions; None if it is not there."""
        for key in self.keys:
            if key is None:
                return values
            if isinstance(values, list | tuple) and isinstance(key, int) and key < len(values):
                return values[key]
            if isinstance(values, Mapping) and key in values:
                return values[key]
        return None


def compiled_losses(model: Any) -> Iterator[CompiledLoss]:
    """Yield the losses of ``compile``, as far as they are functions of one output."""
    given = getattr(model, "loss", None)
    names = getattr(model, "output_names", None) or []
    if isinstance(given, Mapping):
        for name, each in given.items():
            places = [names.index(name)] if name in names else []
            alone = [None] if len(names) == 1 else []
            yield from _made(each, str(name), (name, *places, *alone))
    elif isinstance(given, Sequence) and not isinstance(given, str):
        for place, each in enumerate(given):
            name = names[place] if place < len(names) else str(place)
            yield from _made(each, name, (place, name))
    else:
        yield from _made(given, "", (None,))


def _made(given: Any, output: str, keys: tuple[Key, ...]) -> Iterator[CompiledLoss]:
    try:
        loss = keras.losses.get(given)
    except ValueError:  # "crossentropy", which depends on the shapes
        return
    if not callable(loss):
        return
    options: Mapping[str, Any] = {}
    made = isinstance(loss, keras.losses.Loss)
    own = type(loss) if made else loss
    name = getattr(own, "__name__", "").replace("_", "").lower()
    if not str(getattr(own, "__module__", "")).startswith("keras."):
        name = ""
    elif made:
        options = loss.get_config()
    function = loss if made else _of_one_rank(loss)
    yield CompiledLoss(function, name, options, bool(name) or is_pure(loss), output, keys)


def _of_one_rank(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Give a function of the script's labels and predictions as Keras gives them: of shapes (N) and
    (N, 1) the former gets another axis, of longer ones the latter loses its last."""

    @functools.wraps(function)
    def called(labels: Any, predictions: Any) -> Any:
        more = len(predictions.shape) - len(labels.shape)
        if more == 1 and predictions.shape[-1] == 1:
            if len(labels.shape) == 1:
                labels = labels[:, None]
            else:
                predictions = predictions[..., 0]
        elif more == -1 and labels.shape[-1] == 1:
            if len(predictions.shape) == 1:
                predictions = predictions[:, None]
            else:
                labels = labels[..., 0]
        return function(labels, predictions)

    return called


def compares_all(loss: Callable[[Any, Any], Any], labels: Any, predictions: Any) -> bool:
    """Return whether a loss compares every prediction with every label, as where shapes (N) and (N,
    1) broadcast: each half of the labels is then compared with all predictions, without an error,
    and the loss is the mean of both. One that compares means alone is meant."""
    half = len(labels) // 2
    if len(labels) != len(predictions) or len(labels) % 2 or len(labels) < _LEAST_ROWS:
        return False
    try:
        whole = float(loss(labels, predictions))
        first, second = (float(loss(each, predictions)) for each in (labels[:half], labels[half:]))
        of_mean = float(loss(labels * 0 + labels.mean(), predictions))
    except Exception:  # noqa: BLE001 - that the shapes do not fit is what should happen
        return False
    least = _EXACT * abs(whole)
    if math.isclose(of_mean, whole, abs_tol=least):
        return False
    return abs(first - second) > 10 * least > 0 and math.isclose(
        (first + second) / 2, whole, abs_tol=least
    )
