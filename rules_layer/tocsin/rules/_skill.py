"""The skill of predictions: how much better they are than the best constant guess, at most 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.rules._classes import MOST_CLASSES, labelled, predicted

Numbers = NDArray[np.float64]
_LEAST_PROBABILITY = 1e-7
_DIGITS = 6


@dataclass(frozen=True)
class Scored:
    """One batch of predictions, compared with its labels.

    ``samples``: how many there are.
    ``counts``: for classes, how many labels each has; None for numbers.
    ``hits``: how many classes are predicted right.
    ``surprise``: the sum of cross-entropies in nats; None without probabilities.
    ``total``, ``squares``: for numbers, the sum of the labels and of their squares.
    ``errors``: for numbers, the sum of squared errors.
    """

    samples: int
    counts: Mapping[str, int] | None = None
    hits: int = 0
    surprise: float | None = None
    total: float = 0.0
    squares: float = 0.0
    errors: float = 0.0


def scored(labels: NDArray[Any], predictions: NDArray[Any]) -> Scored | None:
    """Compares a batch with its predictions; None if they do not fit or are not finite."""
    if predictions.ndim == labels.ndim + 1 and predictions.shape[:-1] == labels.shape:
        labels, predictions = labels.reshape(-1), predictions.reshape(-1, predictions.shape[-1])
    if not labels.size or predictions.dtype.kind not in "biuf" or labels.dtype.kind not in "biuf":
        return None
    if not (np.isfinite(predictions).all() and np.isfinite(labels).all()):
        return None
    return _classes(labels, predictions) or _numbers(labels, predictions)


def _classes(labels: NDArray[Any], predictions: NDArray[Any]) -> Scored | None:
    classes = labelled(labels)
    if classes is None or len(classes) != len(np.atleast_1d(predictions)):
        return None
    rows = predictions.ndim == 2 and predictions.shape[1] > 1
    if rows and predictions.shape[1] > MOST_CLASSES:
        return None  # or no classes at all: embeddings of a metric that is learned
    binary = not rows and bool(np.isin(classes, (0, 1)).all())
    if not rows and not binary:
        return None
    guesses = predicted(predictions, binary=binary)
    if guesses is None or (rows and not 0 <= classes.min() <= classes.max() < predictions.shape[1]):
        return None
    found, sizes = np.unique(classes, return_counts=True)
    return Scored(
        len(classes),
        dict(zip(map(str, found.tolist()), sizes.tolist(), strict=True)),
        int(np.count_nonzero(guesses == classes)),
        _surprise(classes, predictions if rows else _pairs(predictions.reshape(-1))),
    )


def _numbers(labels: NDArray[Any], predictions: NDArray[Any]) -> Scored | None:
    if labels.size != predictions.size:
        return None
    known = labels.reshape(-1).astype(np.float64)
    errors = predictions.reshape(-1).astype(np.float64) - known
    if max(np.abs(known).max(), np.abs(errors).max()) > 1e100:
        return None
    sums = float(known.sum()), float(known @ known), float(errors @ errors)
    return Scored(len(known), None, 0, None, *sums)


def _surprise(classes: NDArray[np.int64], rows: NDArray[Any]) -> float:
    """The sum of cross-entropies of rows: probabilities, or else scores."""
    wide = rows.astype(np.float64)
    at = np.arange(len(classes))
    if (wide >= 0).all() and np.allclose(wide.sum(axis=1), 1.0, atol=1e-3):
        return float(-np.log(np.maximum(wide[at, classes], _LEAST_PROBABILITY)).sum())
    wide -= wide.max(axis=1, keepdims=True)
    least = -math.log(_LEAST_PROBABILITY)
    surprises = np.log(np.exp(wide).sum(axis=1)) - wide[at, classes]
    return float(np.minimum(surprises, least).sum())


def _pairs(flat: NDArray[Any]) -> Numbers:
    """Two columns made of one number for each sample, in a problem of two classes."""
    wide = flat.astype(np.float64)
    likely = bool(((wide >= 0) & (wide <= 1)).all())
    return np.stack([1 - wide, wide] if likely else [np.zeros_like(wide), wide], axis=1)


def skill(recent: Sequence[Sequence[float]]) -> float | None:
    """The part of a constant guess's errors that predictions avoid, over rows of ``compared``.

    For classes the larger of accuracy's and cross-entropy's, for numbers R². None where a constant
    guess makes no errors.
    """
    sums = [sum(column) for column in zip(*recent, strict=True)]
    parts = [
        1 - errors / guessed
        for errors, guessed in zip(sums[::2], sums[1::2], strict=True)
        if guessed > 1e-9
    ]
    return round(max(-9.0, *parts), _DIGITS) if parts else None


def remembered(past: Mapping[str, Any], batch: Scored) -> dict[str, Any] | None:
    """``past`` with the labels of one more batch; None for labels of another kind or too many."""
    samples = past.get("samples", 0) + batch.samples
    if batch.counts is not None and "total" not in past:
        counts = dict(past.get("counts", {}))
        for of, count in batch.counts.items():
            counts[of] = counts.get(of, 0) + count
        return {"samples": samples, "counts": counts} if len(counts) <= MOST_CLASSES else None
    if batch.counts is None and "counts" not in past:
        total, squares = past.get("total", 0.0), past.get("squares", 0.0)
        return {
            "samples": samples,
            "total": total + batch.total,
            "squares": squares + batch.squares,
        }
    return None


def compared(past: Mapping[str, Any], batch: Scored) -> list[float]:
    """The errors of a batch beside those of the best constant guess.

    The guess follows from ``past``, which ``remembered`` has made with this batch: both have the
    same labels, so chance cancels.
    """
    known = past["samples"]
    if batch.counts is None:
        mean = past["total"] / known
        around = batch.squares - 2 * mean * batch.total + batch.samples * mean * mean
        return [batch.errors, max(0.0, around)]
    counts = past["counts"]
    most = max(counts, key=lambda of: counts[of])
    guessed = sum(n * -math.log(counts[of] / known) for of, n in batch.counts.items())
    missed = batch.samples - batch.counts.get(most, 0)
    surprise = batch.surprise or 0.0
    return [batch.samples - batch.hits, missed, round(surprise, _DIGITS), round(guessed, _DIGITS)]
