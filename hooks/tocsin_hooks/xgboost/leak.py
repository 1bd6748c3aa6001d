"""A label among the columns of the data that a training is given."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray

from tocsin_hooks import Hook
from tocsin_hooks.guard import Guard
from tocsin_hooks.leaks import MOST_COLUMNS, MOST_SAMPLES, column_of
from tocsin_hooks.looks import contract_name
from tocsin_hooks.script_line import script_line

_LEAK = "label_is_an_input"


def save_leak(hook: Hook) -> None:
    """Save in the step in hand that the label is one of the columns, if it is: only called by a
    callback, of a training in whose ``train`` the data is."""
    name = contract_name(_LEAK, script_line())
    with Guard(hook.trouble, "the data is not looked at"):
        plan = hook.plan(name.name, name.collections, role=name.role)
        if plan is not None and _has_leak(_training_data()):
            hook.capture(plan, 1.0)


def _training_data() -> Any:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != xgb.train.__module__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("dtrain")


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
