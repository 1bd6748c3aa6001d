"""The arguments of a training: its data sets, and parameters that it ignores."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from tocsin.model import HELD_OUT, TRAINED
from xgboost import collective

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.leaks import MOST_COLUMNS, MOST_SAMPLES, column_of
from tocsin_hooks.looks import contract_name
from tocsin_hooks.script_line import script_line
from tocsin_hooks.xgboost.rows import some_rows

_OF_ESTIMATORS = {
    "n_estimators": "num_boost_round",
    "early_stopping_rounds": "early_stopping_rounds",
}
"""Parameters of the estimators, which ``train`` takes as arguments, some by another name."""


_SIZES = ("num_row", "num_col", "num_nonmissing")
_ROUNDS = 10
_MOVES = 0.3  # of the way from the base score to the labels
_MANY_ROWS = 30  # of which the labels are compared
_LEAVES = 3  # that the rows allow, at least, where a depth asks for eight


@dataclass(frozen=True)
class Given:
    """The arguments of a training.

    planned: rounds; 0 if that is not known.
    kinds: of the metrics of each data set that is evaluated, by its name.
    sets: data sets by their names; the one that is trained on comes first.
    own_objective: is a function of the script; what it makes of a margin is not known.
    continued: goes on with the rounds of a model.
    weighted: some rows count more than others, or one of two classes does.
    """

    planned: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    sets: Mapping[str, Any] = field(default_factory=dict)
    own_objective: bool = False
    continued: bool = False
    weighted: bool = False


def find_given() -> Given:
    """Return the arguments of the training that calls this, by a callback."""
    given = _arguments()
    if "dtrain" not in given:
        return Given()
    trained, evals = given["dtrain"], given.get("evals") or ()
    kinds = {name: TRAINED if _are_same(data, trained) else HELD_OUT for data, name in evals}
    names = [name for name, kind in kinds.items() if kind == TRAINED] or ["trained data"]
    others = {name: data for data, name in evals if kinds[name] == HELD_OUT}
    planned, own = int(given.get("num_boost_round") or 0), given.get("obj") is not None
    continued = given.get("xgb_model") is not None
    heavier = dict(given.get("params") or {}).get("scale_pos_weight") not in (None, 1)
    weighted = heavier or trained.get_weight().size > 0
    return Given(planned, kinds, {names[0]: trained, **others}, own, continued, weighted)


def save_contracts(hook: Hook) -> None:
    """Save in the current step what is wrong with the arguments of ``train``: only called by a
    callback of that training."""
    with Guard(hook.trouble, "the data and the parameters are not checked"):
        given = _arguments()
        if _are_unused(given):
            save_contract(hook, "xgboost_parameters_ignored")
        if _hardly_move(given):
            save_contract(hook, "learning_rate_times_rounds_too_small")
        alone = _is_alone()
        if alone and _have_one_split(given):
            save_contract(hook, "min_child_weight_too_large")
        if alone and _are_beyond(given):
            save_contract(hook, "labels_outside_training_range")
        if _has_leak(given.get("dtrain")):
            save_contract(hook, "label_among_inputs")


def _are_same(data: Any, trained: Any) -> bool:
    """Return whether two data sets are one, or have the same rows: estimators make a copy, too."""
    if data is trained:
        return True
    if any(getattr(data, size)() != getattr(trained, size)() for size in _SIZES):
        return False
    labels, rows = (trained.get_label(), data.get_label()), (some_rows(trained), some_rows(data))
    known = labels[0].size > 0 and all(each is not None for each in rows)
    return bool(known and np.array_equal(*labels) and (rows[0] != rows[1]).nnz == 0)


def save_contract(hook: Hook, contract: str) -> None:
    """Save in the current step that a contract is broken."""
    name = contract_name(contract, script_line())
    plan = hook.plan(name.name, name.collections, role=name.role)
    if plan is not None:
        hook.capture(plan, 1.0)


def _arguments() -> Mapping[str, Any]:
    """Of ``train``, by whose names they are known."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != xgb.train.__module__:
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _are_unused(given: Mapping[str, Any]) -> bool:
    """Return whether there are parameters of the estimators, and not the arguments that they stand
    for."""
    usual = inspect.signature(xgb.train).parameters
    return any(
        parameter in (given.get("params") or {}) and given.get(name) == usual[name].default
        for parameter, name in _OF_ESTIMATORS.items()
    )


def _hardly_move(given: Mapping[str, Any]) -> bool:
    """Return whether all rounds together go but a small part of the way, as each goes ``eta`` of
    it."""
    parameters = dict(given.get("params") or {})
    eta = parameters.get("eta", parameters.get("learning_rate"))
    rounds, callbacks = given.get("num_boost_round", 0), given.get("callbacks") or ()
    scheduled = any(isinstance(each, xgb.callback.LearningRateScheduler) for each in callbacks)
    if eta is None or scheduled or given.get("xgb_model") is not None or rounds < _ROUNDS:
        return False
    return bool(0 < float(eta) * rounds < _MOVES)


def _is_alone() -> bool:
    """Return whether this process has all rows: of several each has a part, perhaps by their
    order."""
    return bool(collective.get_world_size() == 1)


def _have_one_split(given: Mapping[str, Any]) -> bool:
    """Return whether both sides of a split must hold so many rows that no tree has a second one,
    though a depth of three or more is asked for. Of squared errors a row weighs 1, or its own
    weight."""
    parameters = dict(given.get("params") or {})
    objective = parameters.get("objective") or "reg:squarederror"
    least = float(parameters.get("min_child_weight") or 0)
    depth, trees = parameters.get("max_depth"), parameters.get("booster") != "gblinear"
    shallow = depth is not None and 0 < int(depth) < _LEAVES
    squared = objective == "reg:squarederror" and given.get("obj") is None
    if shallow or not (squared and trees) or "dtrain" not in given:
        return False
    weights = given["dtrain"].get_weight()
    rows = float(weights.sum()) if weights.size else float(given["dtrain"].num_row())
    return rows * float(parameters.get("subsample") or 1) < _LEAVES * least


def _are_beyond(given: Mapping[str, Any]) -> bool:
    """Return whether all labels of an evaluated data set are larger than all of training, or
    smaller."""
    objective = str(dict(given.get("params") or {}).get("objective") or "")
    if "dtrain" not in given or objective.startswith(("rank:", "survival:")):
        return False
    ours = given["dtrain"].get_label()
    others = [data.get_label() for data, _ in given.get("evals") or ()]
    return ours.size >= _MANY_ROWS and any(
        theirs.size >= _MANY_ROWS and (theirs.min() > ours.max() or theirs.max() < ours.min())
        for theirs in others
    )


def _has_leak(data: Any) -> bool:
    if type(data) is not xgb.DMatrix or data.num_col() > MOST_COLUMNS:
        return False  # of one in quantiles the values are not known
    few = data.slice(np.arange(min(data.num_row(), MOST_SAMPLES)), allow_groups=True)
    return column_of(few.get_label(), _values(few)) is not None


def _values(data: Any) -> NDArray[np.float32]:
    """Shape (rows, columns); NaN is what is missing."""
    sparse = data.get_data()
    found = np.full(sparse.shape, np.nan, np.float32)
    found[np.repeat(np.arange(len(found)), np.diff(sparse.indptr)), sparse.indices] = sparse.data
    return found
