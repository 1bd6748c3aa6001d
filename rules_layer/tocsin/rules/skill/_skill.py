"""Computes the skill of predictions: how much better they are than the best constant guess."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.rules.skill._classes import MOST_CLASSES, classes_of_labels, classes_of_predictions

Numbers = NDArray[np.float64]
_LEAST_PROBABILITY = 1e-7  # a confident mistake costs no more than this probability
_DIGITS = 6  # of a number in the state


@dataclass(frozen=True)
class ScoredBatch:
    """A batch of predictions, compared with its labels.

    ``samples``: the number of samples.
    ``counts``: for classes, the number of labels of each; None for numbers.
    ``hits``: for classes, the number of correct predictions of each.
    ``cross_entropy``: for classes, the sum over the samples, in nats.
    ``total``, ``squares``: for numbers, the sum of the labels and of their squares.
    ``errors``: for numbers, the sum of squared errors.
    """

    samples: int
    counts: Mapping[str, int] | None = None
    hits: Mapping[str, int] = field(default_factory=dict)
    cross_entropy: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    errors: float = 0.0


def score_batch(labels: NDArray[Any], predictions: NDArray[Any]) -> ScoredBatch | None:
    """Compare predictions with labels. Returns None if they do not match or are not finite."""
    if predictions.ndim == labels.ndim + 1 and predictions.shape[:-1] == labels.shape:
        labels, predictions = labels.reshape(-1), predictions.reshape(-1, predictions.shape[-1])
    if not labels.size or predictions.dtype.kind not in "biuf" or labels.dtype.kind not in "biuf":
        return None
    if not (np.isfinite(predictions).all() and np.isfinite(labels).all()):
        return None
    return _score_classes(labels, predictions) or _score_numbers(labels, predictions)


def _score_classes(labels: NDArray[Any], predictions: NDArray[Any]) -> ScoredBatch | None:
    classes = classes_of_labels(labels)
    if classes is None or len(classes) != len(np.atleast_1d(predictions)):
        return None
    rows = predictions.ndim == 2 and predictions.shape[1] > 1
    if rows and predictions.shape[1] > MOST_CLASSES:
        return None  # too many classes, or embeddings of metric learning
    binary = not rows and bool(np.isin(classes, (0, 1)).all())
    if not rows and not binary:
        return None
    guesses = classes_of_predictions(predictions, binary=binary)
    if guesses is None or (rows and not 0 <= classes.min() <= classes.max() < predictions.shape[1]):
        return None
    return ScoredBatch(
        len(classes),
        _counted(classes),
        _counted(classes[guesses == classes]),
        _cross_entropy(classes, predictions if rows else _two_columns(predictions.reshape(-1))),
    )


def _counted(classes: NDArray[np.int64]) -> dict[str, int]:
    found, sizes = np.unique(classes, return_counts=True)
    return dict(zip(map(str, found.tolist()), sizes.tolist(), strict=True))


def _score_numbers(labels: NDArray[Any], predictions: NDArray[Any]) -> ScoredBatch | None:
    if labels.size != predictions.size:
        return None
    known = labels.reshape(-1).astype(np.float64)
    errors = predictions.reshape(-1).astype(np.float64) - known
    if max(np.abs(known).max(), np.abs(errors).max()) > 1e100:
        return None
    sums = float(known.sum()), float(known @ known), float(errors @ errors)
    return ScoredBatch(len(known), None, {}, 0.0, *sums)


def _cross_entropy(classes: NDArray[np.int64], rows: NDArray[Any]) -> float:
    """Return the sum of cross-entropies of rows, which are probabilities or logits."""
    wide = rows.astype(np.float64)
    at = np.arange(len(classes))
    if (wide >= 0).all() and np.allclose(wide.sum(axis=1), 1.0, atol=1e-3):
        return float(-np.log(np.maximum(wide[at, classes], _LEAST_PROBABILITY)).sum())
    wide -= wide.max(axis=1, keepdims=True)
    most = -math.log(_LEAST_PROBABILITY)
    entropies = np.log(np.exp(wide).sum(axis=1)) - wide[at, classes]
    return float(np.minimum(entropies, most).sum())


def _two_columns(flat: NDArray[Any]) -> Numbers:
    """Return a column for each of two classes, from one number for each sample."""
    wide = flat.astype(np.float64)
    probabilities = bool(((wide >= 0) & (wide <= 1)).all())
    return np.stack([1 - wide, wide] if probabilities else [np.zeros_like(wide), wide], axis=1)


def skill(recent: Sequence[Sequence[float]]) -> float | None:
    """Return the skill over several batches, rows of ``errors_and_baseline``.

    It is the share of the constant guess's errors that the predictions avoid: 1 is perfect. For
    numbers it is R². For classes it is the larger of the skills by accuracy and by cross-entropy.
    Returns None if a constant guess makes no errors.
    """
    sums = [sum(column) for column in zip(*recent, strict=True)]
    parts = [
        1 - errors / baseline
        for errors, baseline in zip(sums[::2], sums[1::2], strict=True)
        if baseline > 1e-9
    ]
    return round(max(-9.0, *parts), _DIGITS) if parts else None


def add_batch(past: Mapping[str, Any], batch: ScoredBatch) -> dict[str, Any] | None:
    """Add the labels of a batch to ``past``.

    Returns None if they are of another kind, or have too many classes.
    """
    samples = past.get("samples", 0) + batch.samples
    if batch.counts is not None and "total" not in past:
        counts = _added(past.get("counts", {}), batch.counts)
        hits = _added(past.get("hits", {}), batch.hits)
        many = len(counts) > MOST_CLASSES
        return None if many else {"samples": samples, "counts": counts, "hits": hits}
    if batch.counts is None and "counts" not in past:
        total, squares = past.get("total", 0.0), past.get("squares", 0.0)
        return {
            "samples": samples,
            "total": total + batch.total,
            "squares": squares + batch.squares,
        }
    return None


def _added(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {label: some.get(label, 0) + more.get(label, 0) for label in {**some, **more}}


def balanced_skill(past: Mapping[str, Any]) -> float:
    """Return the skill by balanced accuracy, the mean share of hits in each class, of all batches.

    It is two standard errors below what was found, so that chance does not make it; 0 is any
    constant guess, and predictions that know nothing of the labels. A training that weights rare
    classes has it, where it makes more errors than a constant guess.
    """
    counts = past.get("counts", {})
    if len(counts) < 2:
        return 0.0
    shares = [past["hits"].get(label, 0) / count for label, count in counts.items()]
    variance = sum(0.25 / count for count in counts.values()) / len(counts) ** 2
    chance = 1 / len(counts)
    return (fmean(shares) - 2 * math.sqrt(variance) - chance) / (1 - chance)


def errors_and_baseline(past: Mapping[str, Any], batch: ScoredBatch) -> list[float]:
    """Return the errors of a batch, and those of the best constant guess (the baseline).

    For classes it returns both pairs: by accuracy and by cross-entropy. The guess follows from the
    labels in ``past``, which include this batch: both are judged by the same labels.
    """
    known = past["samples"]
    if batch.counts is None:
        mean = past["total"] / known
        around = batch.squares - 2 * mean * batch.total + batch.samples * mean * mean
        return [batch.errors, max(0.0, around)]
    counts = past["counts"]
    most = max(counts, key=lambda label: counts[label])
    missed = batch.samples - batch.counts.get(most, 0)
    entropy = sum(n * -math.log(counts[label] / known) for label, n in batch.counts.items())
    entropies = round(batch.cross_entropy, _DIGITS), round(entropy, _DIGITS)
    return [batch.samples - sum(batch.hits.values()), missed, *entropies]
