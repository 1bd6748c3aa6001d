"""Batches whose samples, or classes, have weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST_ROWS = 8.0  # that the weights amount to (Kish): of fewer, samples would meet themselves
_MAJORITY = 0.8  # of the labels, as PyTorch's hook has it
_HEAVIER = 3.0  # times the weight of every other class
_SHARE = 0.4  # of the labels: less than most of them
_FAR_HEAVIER = 30.0

Array = NDArray[Any]


def drawn_by_weight(weights: Array) -> Array | None:
    """Return the rows of as large a batch without weights that stands for this one: each sample as
    often as its weight says. None if there are no such rows, or too few different ones.

    Losses of it are compared as of any other: it is what a training with weights sees.
    """
    if not _is_plain(weights):
        return None
    wide = weights.reshape(-1).astype(np.float64)
    total, squares = wide.sum(), np.square(wide).sum()
    if total <= 0 or total * total < _LEAST_ROWS * squares:
        return None
    places = (np.arange(len(wide)) + 0.5) / len(wide)
    return np.minimum(np.searchsorted(np.cumsum(wide) / total, places), len(wide) - 1)


def are_upside_down(labels: Any, weights: Array) -> bool:
    """Return whether samples are weighted by their class, and the most frequent class has by far
    the largest weight: it should have the least."""
    classes = _classes(labels)
    if classes is None or not _is_plain(weights) or len(classes) != len(weights):
        return False
    wide = weights.reshape(-1).astype(np.float64)
    found, counts = np.unique(classes, return_counts=True)
    own = [wide[classes == each] for each in found]
    if len(found) < 2 or any(np.ptp(each) > 0 for each in own):
        return False
    top = int(counts.argmax())
    others = max(float(each[0]) for at, each in enumerate(own) if at != top)
    share, heavier = counts[top] / counts.sum(), own[top][0] / others if others > 0 else 0.0
    most = share >= _MAJORITY and heavier >= _HEAVIER
    return bool(most or (share >= _SHARE and heavier >= _FAR_HEAVIER))


def _is_plain(weights: Array) -> bool:
    """Return whether each sample has one finite, non-negative weight."""
    if not weights.size or weights.size != len(weights) or weights.dtype.kind not in "fiub":
        return False
    return bool(np.isfinite(weights).all() and (weights >= 0).all())


def _classes(labels: Any) -> Array | None:
    """The number of the class of each sample; None where labels are no classes."""
    if not isinstance(labels, np.ndarray) or not labels.size or labels.dtype.kind not in "fiub":
        return None
    if labels.ndim == 2 and labels.shape[1] > 1:
        shares = bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())
        return labels.argmax(1) if shares else None
    if labels.size != len(labels):
        return None
    flat = labels.reshape(-1)
    return flat if bool((flat == np.floor(flat)).all()) else None
