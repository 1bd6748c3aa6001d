"""Compares the columns of training data with those of evaluation data, for boosted trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import TRAINED, Reason, Role, Verdict
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import classify_loss, select_losses
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import MOST_SERIES, points
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded
from tocsin.rules.skill._pairing import percent

_ROWS = 64  # values that a compared column needs
_APART = 0.75  # of the distance between quartiles, about one standard deviation: medians differ
_FACTOR = 2.0  # between the distances of quartiles
_FEW = 2  # columns: one that differs may be a date, or a number of rows
_ROUNDS = 10  # after the first one
_FAR = 1e100  # squares of larger numbers are not finite
_WON = 0.25  # of the improvement of training: evaluations that improved more are healthy
_ERRORS = 6.0  # standard errors within which two quartiles are equal
_NAMED = 6  # columns that a message lists
_MATCHED = 2 / 3  # of the columns that are far from their place, if some are exchanged
_CHANCE = 0.5  # of these, which would also match if all had moved the other way
_OWN = 0.2  # of the quartile distance: the smallest distance of a moved column from its own place

COLUMNS = Read(roles=(Role.COLUMN,), values=True)
"""Reads the quartiles of each column, and the number of its values: shape (columns, 4)."""


def judge_columns(state: State, step: Step, shifted: float) -> tuple[State, Verdict]:
    """Return a violation if at least the share ``shifted`` of the columns, and two, have shifted in
    an evaluation set, and its loss has improved by less than a quarter of the improvement in
    training; or if columns have swapped places, whatever the loss.

    A column lies elsewhere if the medians, or the distances between the quartiles, differ. The
    state has of each evaluated set the share of such columns, and how many are exchanged, with the
    first few of them; and of each loss the round and the value of the first save, and the lowest.
    """
    pairs = _pairs(step.tensors["columns"])
    found = {name: _elsewhere(ours, theirs) for name, (ours, theirs) in pairs.items()}
    shares = dict(islice({**state.get("shares", {}), **found}.items(), MOST_SERIES))
    others = {name: _short(_exchanged(*pair)) for name, pair in pairs.items()}
    exchanged: dict[str, list[int]] = {**state.get("exchanged", {}), **others}
    losses, _ = with_level(select_losses(step.tensors["losses"], ()), named=False)
    known: dict[str, tuple[int, float, float]] = dict(state.get("losses", {}))
    ours, theirs = dict[str, float](), list[tuple[Tensor, str, float]]()
    for point in points(step, losses, None):
        name, cost = point.tensor.name, rounded(point.cost)
        if cost is None or not cost > 0 or (name not in known and len(known) >= MOST_SERIES):
            continue
        since, first, low = known.get(name, (step.mode_step, cost, cost))
        known[name] = since, first, min(low, cost)
        evaluates, base = classify_loss(step.mode, point.tensor)
        won = 1 - known[name][2] / first if step.mode_step - since >= _ROUNDS else 0.0
        if evaluates:
            theirs.append((point.tensor, base, won))
        else:
            ours[base] = won
    verdicts = [
        _exchange(tensor, exchanged[name])
        if exchanged.get(name)
        else _verdict(tensor, shares[name], won, ours[base], shifted)
        for tensor, base, won in theirs
        if (name := tensor.name.removesuffix(f"-{base}")) in shares
        and (exchanged.get(name) or ours.get(base, 0.0) > 0)
    ]
    if not shares:
        return {}, not_applicable(Reason.NO_TENSOR, "no columns of evaluation data")
    exchanged = {name: places for name, places in exchanged.items() if places and name in shares}
    state = {"shares": shares, "losses": known, **({"exchanged": exchanged} if exchanged else {})}
    return state, worst_verdict(verdicts) if verdicts else UNDECIDED


def _pairs(tensors: Iterable[Tensor]) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """The training columns, and those of each evaluation set by its name."""
    known = {each.name.partition("/")[2]: each for each in tensors if _are_columns(each.value)}
    trained = next((each.value for each in known.values() if each.kind == TRAINED), None)
    if trained is None:
        return {}
    return {
        name: (trained, each.value)
        for name, each in known.items()
        if each.kind != TRAINED and each.value is not None and each.value.shape == trained.shape
    }


def _are_columns(value: NDArray[Any] | None) -> bool:
    return value is not None and value.ndim == 2 and value.shape[1] == 4 and value.dtype.kind == "f"


def _elsewhere(ours: NDArray[Any], theirs: NDArray[Any]) -> tuple[float, int]:
    """The share and the number of the columns that have shifted."""
    ours, theirs, live = _comparable(ours, theirs)
    wide, their_wide = _wide(ours), _wide(theirs)
    apart = np.abs(ours[:, 1] - theirs[:, 1]) > _APART * np.maximum(wide, their_wide)
    other = (their_wide > _FACTOR * wide) | (wide > _FACTOR * their_wide)
    far = int(np.count_nonzero(live & (apart | other)))
    return far / max(1, int(np.count_nonzero(live))), far


def _exchanged(ours: NDArray[Any], theirs: NDArray[Any]) -> list[int]:
    """The columns whose quartiles are far from their own in training, and those of another such
    column there, in a circle: they have exchanged their places.

    Where columns drift, some may get the quartiles of others, and of many columns even those of a
    circle. So two thirds of the columns that are far must have those of another, and twice as many
    as if each had drifted the other way. They must be three different numbers: columns of zeros and
    ones may well change places.
    """
    ours, theirs, live = _comparable(ours, theirs)
    for each in (ours, theirs):
        live &= (np.diff(each[:, :3], axis=1) > 0).all(axis=1)
    places = np.flatnonzero(live)
    ours, theirs = ours[places], theirs[places]
    error = _ERRORS * np.sqrt(1 / ours[:, 3] + 1 / theirs[:, 3])
    whole = (ours[:, :3] % 1 == 0).all(axis=1)  # its quartiles are off by one, or not at all
    error += np.where(whole, 1 / _wide(ours), 0.0)
    moved = theirs[:, :3] - ours[:, :3]
    far = np.abs(moved).max(axis=1) / _wide(ours) > np.maximum(2 * error, _OWN)
    became = _are(theirs, ours, error)[far]
    turned = theirs[:, :3] - 2 * moved[:, [1]]
    by_chance = int(_are(turned, ours, error)[far].any(axis=1).sum())
    matched = int(became.any(axis=1).sum())
    if matched < _MATCHED * len(became) or by_chance > _CHANCE * matched:
        return []
    return [int(at) for at in places[far][_in_circles(became[:, far])]]


def _are(some: NDArray[Any], others: NDArray[Any], error: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns have the quartiles of which others: shape (columns, columns)."""
    apart = np.abs(some[:, None, :3] - others[None, :, :3]).max(axis=2) / _wide(others)
    same: NDArray[np.bool_] = apart <= error
    np.fill_diagonal(same, val=False)
    return same


def _in_circles(became: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which columns are in a circle, or between two: nobody's place, or one without, is
    not."""
    inside = np.ones(len(became), dtype=bool)
    while True:
        kept = inside & became[:, inside].any(axis=1) & became[inside].any(axis=0)
        if (kept == inside).all():
            return inside
        inside = kept


def _comparable(
    ours: NDArray[Any], theirs: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """The quartiles, finite, and which columns have enough values that differ."""
    finite = np.isfinite(ours).all(axis=1) & np.isfinite(theirs).all(axis=1)
    ours, theirs = (
        np.clip(np.where(finite[:, None], each, 0.0), -_FAR, _FAR) for each in (ours, theirs)
    )
    live = (ours[:, 3] >= _ROWS) & (theirs[:, 3] >= _ROWS) & (_wide(ours) > 0)
    return ours, theirs, live


def _wide(quartiles: NDArray[Any]) -> NDArray[Any]:
    wide: NDArray[Any] = quartiles[:, 2] - quartiles[:, 0]
    return wide


def _short(places: list[int]) -> list[int]:
    """Return the number of exchanged columns and the first few of them."""
    return [len(places), *places[:_NAMED]] if places else []


def _exchange(tensor: Tensor, places: list[int]) -> Verdict:
    count, few = places[0], ", ".join(map(str, places[1:]))
    detail = (
        f"columns {few}{' …' if count > _NAMED else ''} (counted from 0) are in a different order "
        f"in the data of {tensor.name}: each has the quartiles of another column in training"
    )
    found = violation(Reason.DIFFERENT, detail, tensor, columns=count)
    return measured(found, count, _FEW)


def _verdict(
    tensor: Tensor, elsewhere: tuple[float, int], won: float, trained: float, shifted: float
) -> Verdict:
    share, far = elsewhere
    healthy = measured(HEALTHY, share, shifted)
    if share < shifted or far < _FEW or won >= _WON * trained:
        return healthy
    detail = (
        f"{far} columns ({100 * share:.0f} %) have different quartiles in the evaluation data, and "
        f"{tensor.name} improved by {percent(won)} while training loss improved by "
        f"{percent(trained)}: evaluation data is preprocessed differently"
    )
    evidence: Mapping[str, float] = {"columns": far, "eval": won, "train": trained}
    found = violation(Reason.DIFFERENT, detail, tensor, **evidence)
    return measured(found, share, shifted, name="share")
