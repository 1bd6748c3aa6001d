"""The columns of the data that is trained on, and of that which is evaluated."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from tocsin.model import HELD_OUT, TRAINED

from tocsin_hooks import Hook
from tocsin_hooks.looks import columns_name
from tocsin_hooks.xgboost.given import Given

MOST_COLUMNS = 1024
_MOST_VALUES = 1 << 22  # of a data set that is looked at as a whole: others by some of their rows
_MOST_ROWS = 4096


def save_columns(hook: Hook, given: Given) -> None:
    """Save once, in the step in hand, where the values of each column lie, in each data set."""
    if len(given.sets) < 2:
        return
    for at, (name, data) in enumerate(given.sets.items()):
        saved = columns_name(name, HELD_OUT if at else TRAINED)
        plan = hook.plan(saved.name, saved.collections, role=saved.role, kind=saved.kind)
        rows = None if plan is None else _some_rows(data)
        if plan is not None and rows is not None:
            hook.capture(plan, _quartiles(rows))


def _some_rows(data: Any) -> Any:
    """Sparse rows of a data set; None where it is too large."""
    if not isinstance(data, xgb.DMatrix) or not 0 < data.num_col() <= MOST_COLUMNS:
        return None
    if data.num_nonmissing() <= _MOST_VALUES:
        return data.get_data()
    if type(data) is not xgb.DMatrix:
        return None  # one in quantiles cannot be divided
    rows = np.linspace(0, data.num_row() - 1, _MOST_ROWS).astype(np.int64)
    return data.slice(rows, allow_groups=True).get_data()


def _quartiles(rows: Any) -> NDArray[np.float64]:
    """Shape (columns, 4): the quartiles of the values that are there, and their number."""
    by_column = rows.tocsc()
    found = np.zeros((by_column.shape[1], 4))
    for at, (begin, end) in enumerate(pairwise(by_column.indptr)):
        values = by_column.data[begin:end]
        values = values[np.isfinite(values)]
        found[at, 3] = values.size
        if values.size:
            found[at, :3] = np.quantile(values, (0.25, 0.5, 0.75))
    return found
