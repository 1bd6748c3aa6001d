"""Labels and predictions as classes, a whole number for each sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.rules._rule import Tensor

Classes = NDArray[np.int64]

MOST_CLASSES = 100
"""The classes that are counted; one more is kept to show that there are more."""

_IGNORED = -100  # a label that PyTorch's losses leave out: padding, parts of words


def of_workers(
    labels: Iterable[Tensor], predictions: Iterable[Tensor]
) -> Iterator[tuple[Tensor, NDArray[Any], NDArray[Any] | None]]:
    """Yields each worker's first labels, their values, and its first predictions for as many."""
    known = [(found.worker, found.value) for found in predictions if found.value is not None]
    seen = set()
    for label in labels:
        if label.worker in seen or label.value is None:
            continue
        seen.add(label.worker)
        samples = _samples(label.value)
        fitting = (
            value
            for worker, value in known
            if worker == label.worker and _samples(value) == samples
        )
        yield label, label.value, next(fitting, None)


def labelled(value: NDArray[Any]) -> Classes | None:
    """The classes of labels: whole numbers, one for each sample, or one-hot rows.

    None for anything else: a regression, a mask of an image, tokens of a text.
    """
    if value.dtype.kind not in "biuf" or not value.size:
        return None
    if value.ndim == 2 and value.shape[1] > 1:
        one_hot = np.isin(value, (0, 1)).all() and (value.sum(axis=1) == 1).all()
        return _largest(value) if one_hot else None
    if value.ndim > 2:
        return None
    flat = value.reshape(-1)
    return flat.astype(np.int64) if _whole(flat) else None


def predicted(value: NDArray[Any], *, binary: bool) -> Classes | None:
    """The classes of predictions: the index of the largest number of a row, or whole numbers.

    In a ``binary`` problem one number for each sample is enough: a probability of at least 0.5, or
    a score above 0, is class 1. None for anything else, such as real numbers for more classes.
    """
    if value.dtype.kind not in "biuf" or not value.size or value.ndim > 2:
        return None
    if value.ndim == 2 and value.shape[1] > 1:
        return _largest(value)
    flat = value.reshape(-1)
    if _whole(flat):
        return flat.astype(np.int64)
    if not binary or not np.isfinite(flat).all():
        return None
    likely = bool(((flat >= 0) & (flat <= 1)).all())
    return (flat >= 0.5 if likely else flat > 0).astype(np.int64)


def count(
    counts: dict[str, list[int]], labels: NDArray[Any], predictions: NDArray[Any] | None
) -> bool:
    """Adds samples to ``counts``. Returns whether they have classes.

    ``counts`` has for each class the number of labels, how many of these have a predicted class,
    and how many of these predictions are wrong.
    """
    classes = labelled(labels)
    if classes is None:
        return False
    found, sizes = np.unique(classes[classes != _IGNORED], return_counts=True)
    guesses = None
    if predictions is not None:
        binary = {*counts, *map(str, found[:3])} <= {"0", "1"}
        guesses = predicted(predictions, binary=binary)
        if guesses is None and predictions.size == classes.size:
            return False  # a real number for each sample: a regression, though of whole numbers
    for of, size in zip(found[: MOST_CLASSES + 1].tolist(), sizes.tolist(), strict=False):
        known, judged, wrong = counts.get(str(of), [0, 0, 0])
        if guesses is not None:
            judged, wrong = judged + size, wrong + int((guesses[classes == of] != of).sum())
        counts[str(of)] = [known + size, judged, wrong]
    return True


def _largest(rows: NDArray[Any]) -> Classes:
    largest: Classes = rows.argmax(axis=1)
    return largest


def _whole(flat: NDArray[Any]) -> bool:
    if flat.dtype.kind != "f":
        return True
    return bool((np.abs(flat) < 2**53).all() and (np.trunc(flat) == flat).all())


def _samples(value: NDArray[Any]) -> int:
    return len(value) if value.ndim else 1
