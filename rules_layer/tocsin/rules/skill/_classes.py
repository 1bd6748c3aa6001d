"""Reads labels and predictions as classes: an integer for each sample."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import IGNORE_INDEX
from tocsin.rules._rule import Tensor

Classes = NDArray[np.int64]

MOST_CLASSES = 100
"""The number of classes that are counted. One more is kept to show that there are more."""

_LABELS = re.compile(r"(.*)_input_1(.*)")
_PREDICTIONS = re.compile(r"(.*)_input_0(.*)")

# What these compare are not labels with predictions of them.
_OTHER_LOSSES = re.compile(r"kl_?div|poisson|gaussian|ctc|cosine|embedding|triplet|margin|ranking")

_IGNORES = re.compile(rf"(?:.* )?{IGNORE_INDEX}([0-9]{{1,18}})")
_IGNORED = -100  # PyTorch's losses ignore this label: padding, parts of words


@dataclass(frozen=True)
class WorkerBatch:
    """The labels of a worker, and their predictions, if there are any.

    ``values`` and ``predicted`` are those of the samples whose label the loss does not ignore.
    """

    labels: Tensor
    values: NDArray[Any]
    predictions: Tensor | None
    predicted: NDArray[Any] | None


def worker_batches(
    labels: Iterable[Tensor], predictions: Sequence[Tensor]
) -> Iterator[WorkerBatch]:
    """Yield the first labels of each worker and their predictions.

    These are of the same loss: what a hook saves as ``X_input_1`` was compared with ``X_input_0``.
    Labels of another name belong to the first predictions of as many samples. Leaves out losses
    that compare something else.
    """
    seen = set()
    for label in labels:
        if label.worker in seen or label.value is None:
            continue
        if (loss := _LABELS.fullmatch(label.name)) and _OTHER_LOSSES.search(loss[1].lower()):
            continue
        seen.add(label.worker)
        samples = _samples(label.value)
        matching = (
            each
            for each in predictions
            if each.worker == label.worker
            and each.value is not None
            and _samples(each.value) == samples
            and _belong_together(label.name, each.name)
        )
        found = next(matching, None)
        predicted = None if found is None else found.value
        kept = _counted(label)
        if kept is None:
            yield WorkerBatch(label, label.value, found, predicted)
        elif kept.any():
            predicted = None if predicted is None else predicted[kept]
            yield WorkerBatch(label, label.value[kept], found, predicted)


def _counted(label: Tensor) -> NDArray[np.bool_] | None:
    """Return which labels their loss does not ignore, if it ignores one that may be a class."""
    if label.value is None or label.value.ndim != 1:
        return None
    ignored = _IGNORES.fullmatch(label.kind or "")
    return None if ignored is None else label.value != int(ignored[1])


def classes_of_labels(value: NDArray[Any]) -> Classes | None:
    """Return the classes of labels: integers, one for each sample, or one-hot rows.

    Returns None for anything else: a regression, a mask of an image, tokens of a text.
    """
    if value.dtype.kind not in "biuf" or not value.size:
        return None
    if value.ndim == 2 and value.shape[1] > 1:
        one_hot = np.isin(value, (0, 1)).all() and (value.sum(axis=1) == 1).all()
        return _argmax(value) if one_hot else None
    if value.ndim > 2:
        return None
    flat = value.reshape(-1)
    return flat.astype(np.int64) if _are_integers(flat) else None


def classes_of_predictions(value: NDArray[Any], *, binary: bool) -> Classes | None:
    """Return the classes of predictions: the index of the largest number of each row, or integers.

    In a ``binary`` problem one number for each sample is enough: a probability of at least 0.5, or
    a score above 0, is class 1. Returns None for anything else, such as real numbers for more
    classes.
    """
    if value.dtype.kind not in "biuf" or not value.size or value.ndim > 2:
        return None
    if value.ndim == 2 and value.shape[1] > 1:
        return _argmax(value)
    flat = value.reshape(-1)
    if _are_integers(flat):
        return flat.astype(np.int64)
    if not binary or not np.isfinite(flat).all():
        return None
    probabilities = bool(((flat >= 0) & (flat <= 1)).all())
    return (flat >= 0.5 if probabilities else flat > 0).astype(np.int64)


def are_judged(classes: Classes) -> NDArray[np.bool_]:
    """Mark the labels that are classes.

    Losses ignore one that is below zero, by whatever number a script names: −1 is a class only
    beside fewer than two that are not below zero, as of −1 and 1.
    """
    several = len(np.unique(classes[classes >= 0])) >= 2
    judged: NDArray[np.bool_] = classes >= 0 if several else classes != _IGNORED
    return judged


def count_labels(
    counts: dict[str, list[int]], labels: NDArray[Any], predictions: NDArray[Any] | None
) -> bool:
    """Add samples to ``counts``. Returns whether the labels are classes.

    ``counts`` has four numbers for each class: its labels, its labels with a predicted class, its
    labels with a wrong prediction, and how many of these came after the last right one.
    """
    classes = classes_of_labels(labels)
    if classes is None:
        return False
    found, sizes = np.unique(classes[classes != _IGNORED], return_counts=True)
    guesses = None
    if predictions is not None:
        binary = {*counts, *map(str, found[:3])} <= {"0", "1"}
        guesses = classes_of_predictions(predictions, binary=binary)
        if guesses is None and predictions.size == classes.size:
            return False  # a real number for each sample: a regression whose labels are integers
    for label, size in zip(found[: MOST_CLASSES + 1].tolist(), sizes.tolist(), strict=False):
        known, judged, wrong, missed = counts.get(str(label), [0, 0, 0, 0])
        if guesses is not None:
            right = guesses[classes == label] == label
            judged, wrong = judged + size, wrong + int((~right).sum())
            missed = int(right[::-1].argmax()) if right.any() else missed + size
        counts[str(label)] = [known + size, judged, wrong, missed]
    return True


def _belong_together(label: str, prediction: str) -> bool:
    """Return whether names allow that predictions were compared with labels, in the same call."""
    loss, call = _LABELS.fullmatch(label), _PREDICTIONS.fullmatch(prediction)
    if loss is None and call is None:
        return True
    return loss is not None and call is not None and loss.groups() == call.groups()


def _argmax(rows: NDArray[Any]) -> Classes:
    largest: Classes = rows.argmax(axis=1)
    return largest


def _are_integers(flat: NDArray[Any]) -> bool:
    if flat.dtype.kind != "f":
        return True
    return bool((np.abs(flat) < 2**53).all() and (np.trunc(flat) == flat).all())


def _samples(value: NDArray[Any]) -> int:
    return len(value) if value.ndim else 1
