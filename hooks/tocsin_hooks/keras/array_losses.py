"""The losses of a batch of Keras, computed from arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import keras
import numpy as np
from numpy.typing import NDArray

from tocsin_hooks.keras.losses import CompiledLoss, compiled_losses

_LEAST = 1e-7  # of a probability, as Keras cuts it
_REGRET = 0.02  # of the loss, that shares of classes may cost because few labels were seen

Array = NDArray[Any]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class ArrayLoss:
    """A loss with its labels and predictions, of which the first axis are the samples.

    kind: the function as PyTorch calls it, or "loss" for another one.
    mean: of labels and predictions.
    guess: the best constant prediction by labels that were seen; None if it is not known.
    output: of the model, if it has several.
    """

    kind: str
    labels: Array
    predictions: Array
    mean: Callable[[Array, Array], float]
    guess: Callable[[Array], Array | None] | None = None
    output: str = ""

    @property
    def has_classes(self) -> bool:
        """Return whether predictions are scores of classes: zeros say even shares of them."""
        return "cross_entropy" in self.kind


class BatchLosses:
    """The losses that a model was compiled with, but for those with a state."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._compiled = model.loss
        self._losses = [*compiled_losses(model)]
        self._means: dict[str, Callable[[Array, Array], float]] = {}

    def are_of(self, model: Any) -> bool:
        """Return whether it is this model, and was not compiled again."""
        return self.model is model and self._compiled is model.loss

    def of(self, labels: Any, predictions: Any) -> Iterator[ArrayLoss]:
        """Return the losses of a batch."""
        for each in self._losses:
            target, prediction = each.of(labels), each.of(predictions)
            if not isinstance(target, np.ndarray) or not isinstance(prediction, np.ndarray):
                continue
            if len(target) == len(prediction) and prediction.dtype.kind == "f":
                found = self._loss(each, target, prediction)
                if found is not None:
                    yield found

    def _loss(self, loss: CompiledLoss, labels: Array, predictions: Array) -> ArrayLoss | None:
        make = _KNOWN.get(loss.name)
        found = make(loss, *_aligned(labels, predictions.astype(np.float64))) if make else None
        if found is not None or not loss.is_pure:
            return found
        if loss.output not in self._means:
            self._means[loss.output] = _own_mean(loss.function)
        return ArrayLoss("loss", labels, predictions, self._means[loss.output], output=loss.output)


def _own_mean(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], float]:
    """Of a function that only Keras can compute, which gives it labels and predictions alike as
    floating point numbers, and compiles it. Numbers of chance are afterwards what they were."""
    compiled = _compiled(function)

    def mean(labels: Array, predictions: Array) -> float:
        numbers, arrays = random.getstate(), np.random.get_state()
        try:
            return float(compiled(*(each.astype(np.float32) for each in (labels, predictions))))
        finally:
            random.setstate(numbers)
            np.random.set_state(arrays)

    return mean


def _compiled(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def mean(labels: Any, predictions: Any) -> Any:
        with keras.StatelessScope():  # variables keep what they have
            tensors = map(keras.ops.convert_to_tensor, (labels, predictions))
            return keras.ops.mean(function(*tensors))

    if keras.backend.backend() == "jax":
        import jax

        return cast("Callable[[Any, Any], Any]", jax.jit(mean))
    import tensorflow

    return cast("Callable[[Any, Any], Any]", tensorflow.function(mean))


def _aligned(labels: Array, predictions: Array) -> tuple[Array, Array]:
    """Of shapes (N) and (N, 1) the latter loses its last axis, as with Keras."""
    if labels.ndim == predictions.ndim + 1 and labels.shape[-1] == 1:
        return labels[..., 0], predictions
    if predictions.ndim == labels.ndim + 1 and predictions.shape[-1] == 1:
        return labels, predictions[..., 0]
    return labels, predictions


def _squares(labels: Array, predictions: Array) -> float:
    return float(np.mean((predictions - labels) ** 2))


def _sizes(labels: Array, predictions: Array) -> float:
    return float(np.mean(np.abs(predictions - labels)))


def _counts(labels: Array, predictions: Array) -> float:
    return float(np.mean(predictions - labels * np.log(np.maximum(predictions, _LEAST))))


def _mean(labels: Array) -> Array:
    return np.asarray(labels.mean(0))


def _median(labels: Array) -> Array:
    return np.asarray(np.median(labels, 0))


def _numbers(
    kind: str,
    mean: Callable[[Array, Array], float],
    guess: Callable[[Array], Array],
    loss: CompiledLoss,
    labels: Array,
    predictions: Array,
) -> ArrayLoss | None:
    if labels.shape != predictions.shape:
        return None
    return ArrayLoss(kind, labels.astype(np.float64), predictions, mean, guess, loss.output)


def _two_classes(loss: CompiledLoss, labels: Array, predictions: Array) -> ArrayLoss | None:
    if labels.shape != predictions.shape or labels.min() < 0 or labels.max() > 1:
        return None
    kind = "binary_cross_entropy"
    if loss.options.get("from_logits"):
        kind += "_with_logits"
    else:
        shares = predictions.clip(_LEAST, 1 - _LEAST)
        predictions = np.log(shares) - np.log1p(-shares)
    wide = labels.astype(np.float64)
    return ArrayLoss(kind, wide, predictions, _logistic, _log_odds, loss.output)


def _logistic(labels: Array, scores: Array) -> float:
    softplus = np.maximum(scores, 0) + np.log1p(np.exp(-np.abs(scores)))
    return float(np.mean(softplus - labels * scores))


def _log_odds(labels: Array) -> Array:
    share = labels.mean(0).clip(0.5 / len(labels), 1 - 0.5 / len(labels))
    return np.asarray(np.log(share) - np.log1p(-share))


def _classes(loss: CompiledLoss, labels: Array, predictions: Array) -> ArrayLoss | None:
    """Labels are shares of the classes, or with one axis less numbers of classes."""
    options = loss.options
    if options.get("axis", -1) not in (-1, predictions.ndim - 1) or predictions.ndim < 2:
        return None
    scores = predictions if options.get("from_logits") else np.log(predictions.clip(_LEAST))
    classes = scores.shape[-1]
    if labels.shape == scores.shape:
        smoothing = float(options.get("label_smoothing") or 0.0)
        shares = labels.astype(np.float64) * (1 - smoothing) + smoothing / classes
        return ArrayLoss("cross_entropy", shares, scores, _of_shares, _log_mean, loss.output)
    if labels.shape != scores.shape[:-1]:
        return None
    ignored = options.get("ignore_class")
    whole = labels.astype(np.int64)
    if scores.ndim == 3:  # each position of a sequence is a sample
        whole, scores = whole.reshape(-1), scores.reshape(-1, classes)
    if whole.ndim == 1 and ignored is not None:
        whole, scores = whole[whole != ignored], scores[whole != ignored]
    counted = whole[whole != ignored] if ignored is not None else whole
    if not counted.size or counted.min() < 0 or counted.max() >= classes:
        return None
    guess = partial(_log_shares, classes, ignored)
    mean = partial(_of_classes, ignored)
    return ArrayLoss("cross_entropy", whole, scores, mean, guess, loss.output)


def _log_softmax(scores: Array) -> Array:
    away = scores - scores.max(-1, keepdims=True)
    return np.asarray(away - np.log(np.exp(away).sum(-1, keepdims=True)))


def _of_shares(shares: Array, scores: Array) -> float:
    return float(-np.mean((shares * _log_softmax(scores)).sum(-1)))


def _log_mean(shares: Array) -> Array:
    return np.asarray(np.log(shares.mean(0).clip(_LEAST)))


def _of_classes(ignored: int | None, labels: Array, scores: Array) -> float:
    counts = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    at = np.where(counts, labels, 0)[..., None]
    found = np.take_along_axis(_log_softmax(scores), at, -1)[..., 0]
    return float(-found[counts].mean())


def _log_shares(classes: int, ignored: int | None, labels: Array) -> Array | None:
    """Of their classes; unknown as long as too few labels were seen for so many classes."""
    seen = np.bincount(labels[labels != ignored] if ignored is not None else labels.reshape(-1))
    counts = np.zeros(classes)
    counts[: len(seen)] = seen[:classes]
    unseen = 0.5 * np.count_nonzero(counts)
    shares = (counts + unseen / classes) / (counts.sum() + unseen)
    entropy = float(-(counts * np.log(shares)).sum() / max(1.0, counts.sum()))
    known = (2 * unseen - 1) / (2 * counts.sum()) < _REGRET * entropy if counts.any() else False
    return np.asarray(np.log(shares)) if known else None


_KNOWN: Mapping[str, Callable[[CompiledLoss, Array, Array], ArrayLoss | None]] = {
    "binarycrossentropy": _two_classes,
    "categoricalcrossentropy": _classes,
    "meanabsoluteerror": partial(_numbers, "l1_loss", _sizes, _median),
    "meansquarederror": partial(_numbers, "mse_loss", _squares, _mean),
    "poisson": partial(_numbers, "poisson_nll_loss", _counts, _mean),
    "sparsecategoricalcrossentropy": _classes,
}
