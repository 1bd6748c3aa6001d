"""The sections of a run of XGBoost: labels, importances, confusion, ROC, residuals."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Role
from tocsin.report.history import History
from tocsin.report.parts import Bars, Boosted, Lines, Matrix
from tocsin.report.thin import digit, digits
from tocsin.tensors import Entry, IndexFile, Unreadable, index_at, read_values

MOST_CLASSES = 50
MOST_FEATURES = 20
_POINTS = 200
_BINS = 10
_ACCURACIES = 40  # steps at which predictions are read

Values = NDArray[np.float64]


def boosted_of(history: History, last: int) -> Boosted | None:
    """Return the sections, None for a run that is not XGBoost's."""
    importances = [
        (place[0], history.place(place))
        for saves in history.saves
        for place in saves.tensors
        if history.place(place)[0] in (Role.FEATURE_IMPORTANCE, Role.TREE)
    ]
    steps = [step for step in history.steps if step <= last]
    if not importances or not steps:
        return None
    labels, predictions = _last_batch(history, steps)
    bars = list(_importances(history, steps[-1]))
    if labels is None or predictions is None:
        why = "labels and predictions were not saved: capture the collections labels, predictions"
        return Boosted("unknown", bars, [], None, [], [why])
    classes = _classes(labels)
    task = "regression" if classes is None else "binary" if len(classes) <= 2 else "multiclass"
    bars.insert(0, _distribution(labels, classes))
    lines: list[Lines] = []
    if classes is None:
        bars += _residuals(labels, predictions)
        return Boosted(task, bars, lines, None, [], [])
    guesses = _guesses(predictions)
    matrix = _matrix(labels, guesses, classes)
    lines += _accuracies(history, steps, classes)
    if len(classes) == 2 and predictions.ndim == 1:
        lines.append(_roc(labels == classes[-1], predictions))
    names = [f"{value:g}" for value in classes]
    table = Matrix(names, [[int(count) for count in row] for row in matrix])
    return Boosted(task, bars, lines, table, _scores(matrix, names), [])


def _last_batch(history: History, steps: list[int]) -> tuple[Values | None, Values | None]:
    """The labels and predictions of the last step that has both."""
    for step in reversed(steps[-20:]):
        found = _batch(history, step)
        if found is not None:
            return found
    return None, None


def _batch(history: History, step: int) -> tuple[Values, Values] | None:
    known = {
        role: [
            place[0]
            for saves in history.saves
            for place in saves.tensors
            if history.place(place)[0] is role
        ]
        for role in (Role.LABEL, Role.PREDICTION)
    }
    for file in _files(history, step):
        values = _values(history, file, {name for names in known.values() for name in names})
        pair = [next((values[n] for n in names if n in values), None) for names in known.values()]
        labels, predictions = pair
        if labels is None or predictions is None:
            continue
        labels = labels.reshape(-1)
        predictions = predictions.reshape(len(predictions), -1) if predictions.ndim else predictions
        if labels.size and len(predictions) == len(labels):
            return labels, predictions[:, 0] if predictions.shape[1] == 1 else predictions
    return None


def _files(history: History, step: int) -> list[IndexFile]:
    workers = dict.fromkeys(saves.worker for saves in history.saves)
    files = (index_at(history.storage, step, worker) for worker in workers)
    return [file for file in files if file is not None]


def _values(history: History, file: IndexFile, names: set[str]) -> Mapping[str, Values]:
    wanted = {e.name for e in file.entries if e.name in names and _small(e)}
    found = read_values(history.storage, file, wanted)
    return {
        name: np.asarray(value, np.float64)
        for name, value in found.items()
        if not isinstance(value, Unreadable) and value.dtype.kind in "biuf"
    }


def _small(entry: Entry) -> bool:
    return (entry.length or 0) <= 64 << 20


def _classes(labels: Values) -> Values | None:
    """The classes, None for the labels of a regression."""
    values = np.unique(labels[np.isfinite(labels)])
    whole = len(values) > 0 and bool((values == np.trunc(values)).all()) and values.min() >= 0
    return values if whole and len(values) <= MOST_CLASSES else None


def _guesses(predictions: Values) -> Values:
    if predictions.ndim > 1:
        chosen: Values = predictions.argmax(axis=1).astype(np.float64)
        return chosen
    likely = bool(((predictions >= 0) & (predictions <= 1)).all())
    whole = bool((predictions == np.trunc(predictions)).all())
    if whole:
        return predictions
    return np.where(predictions > (0.5 if likely else 0.0), 1.0, 0.0)


def _distribution(labels: Values, classes: Values | None) -> Bars:
    if classes is not None:
        counts = [float(np.count_nonzero(labels == value)) for value in classes]
        names = [f"{value:g}" for value in classes]
        return Bars("Labels", names, {"samples": list(counts)})
    return _histogram("Labels", labels, "samples")


def _histogram(title: str, values: Values, series: str) -> Bars:
    finite = values[np.isfinite(values)]
    counts, edges = np.histogram(finite, bins=_BINS)
    names = [f"{low:.3g} … {high:.3g}" for low, high in pairwise(edges)]
    return Bars(title, names, {series: [float(count) for count in counts]})


def _importances(history: History, step: int) -> list[Bars]:
    """The largest importances of each kind at the last step that has any."""
    kinds: dict[str, dict[str, float]] = {}
    for saves in history.saves:
        if not len(saves.steps):
            continue
        newest = saves.field("value")[-1]
        for at, place in enumerate(saves.tensors):
            role, kind = history.place(place)
            value = float(newest[at])
            if role is Role.FEATURE_IMPORTANCE and np.isfinite(value):
                kinds.setdefault(kind or "weight", {})[place[0].rpartition("/")[2]] = value
    found = []
    for kind, values in kinds.items():
        largest = sorted(values, key=lambda name: -values[name])[:MOST_FEATURES]
        numbers = digits(values[name] for name in largest)
        found.append(Bars(f"Feature importance: {kind}", largest, {kind: numbers}))
    return found


def _residuals(labels: Values, predictions: Values) -> list[Bars]:
    residuals = labels - predictions.reshape(len(labels), -1)[:, 0]
    edges = np.histogram_bin_edges(labels, bins=_BINS)
    place = np.clip(np.searchsorted(edges, labels, side="right") - 1, 0, _BINS - 1)
    errors = [
        digit(float(np.abs(residuals[place == at]).mean())) if (place == at).any() else None
        for at in range(_BINS)
    ]
    names = [f"{low:.3g} … {high:.3g}" for low, high in pairwise(edges)]
    return [
        _histogram("Residuals (label − prediction)", residuals, "samples"),
        Bars("Mean absolute error by label", names, {"error": errors}),
    ]


def _matrix(labels: Values, guesses: Values, classes: Values) -> NDArray[np.int64]:
    places = {value: at for at, value in enumerate(classes.tolist())}
    matrix = np.zeros((len(classes), len(classes)), np.int64)
    for label, guess in zip(labels.tolist(), guesses.tolist(), strict=True):
        if label in places and guess in places:
            matrix[places[label], places[guess]] += 1
    return matrix


Score = tuple[str, float | None, float | None, float | None]


def _scores(matrix: NDArray[np.int64], names: list[str]) -> list[Score]:
    """Precision, recall and F1 of each class and their averages."""
    right, known, guessed = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.nan_to_num(right / guessed)
        recall = np.nan_to_num(right / known)
        f1 = np.nan_to_num(2 * precision * recall / (precision + recall))
    total = max(1, int(known.sum()))
    micro = float(right.sum()) / total

    def row(name: str, *values: Any) -> Score:
        one, two, three = (digit(float(value)) for value in values)
        return name, one, two, three

    weights = known / total
    return [
        row("micro", micro, micro, micro),
        row("macro", precision.mean(), recall.mean(), f1.mean()),
        row("weighted", precision @ weights, recall @ weights, f1 @ weights),
        *(row(f"class {n}", precision[i], recall[i], f1[i]) for i, n in enumerate(names)),
    ]


def _accuracies(history: History, steps: list[int], classes: Values) -> list[Lines]:
    """The share of each class that is predicted rightly, over the steps."""
    chosen = np.unique(np.linspace(0, len(steps) - 1, _ACCURACIES).round().astype(int))
    x: list[float] = []
    rows: list[Values] = []
    for step in (steps[at] for at in chosen):
        batch = _batch(history, step)
        if batch is None:
            continue
        matrix = _matrix(batch[0], _guesses(batch[1]), classes)
        totals = matrix.sum(axis=1)
        rows.append(np.where(totals, matrix.diagonal() / np.maximum(totals, 1), np.nan))
        x.append(float(step))
    if len(x) < 2:
        return []
    series = {
        f"class {value:g}": digits(column)
        for value, column in zip(classes, np.array(rows).T, strict=True)
    }
    return [Lines("Accuracy of each class", "step", list(x), series, steps=True)]


def _roc(positive: NDArray[np.bool_], scores: Values) -> Lines:
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], positive[order]
    hits, misses = np.cumsum(truth), np.cumsum(~truth)
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # of equal scores
    rate = np.concatenate([[0.0], hits[last] / max(1, int(hits[-1]))])
    false = np.concatenate([[0.0], misses[last] / max(1, int(misses[-1]))])
    area = float(np.sum(np.diff(false) * (rate[1:] + rate[:-1]) / 2))
    keep = np.unique(np.linspace(0, len(rate) - 1, _POINTS).round().astype(int))
    title = f"ROC curve: the area under it is {area:.3f}"
    return Lines(
        title, "false positives", digits(false[keep]), {"true positives": digits(rate[keep])}
    )
