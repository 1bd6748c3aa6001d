"""The columns of the data that is trained on, and of that which is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tocsin.model import HELD_OUT, TRAINED

from tocsin_hooks import Hook
from tocsin_hooks.looks import columns_name
from tocsin_hooks.xgboost.given import Given
from tocsin_hooks.xgboost.rows import some_rows


def save_columns(hook: Hook, given: Given) -> None:
    """Save the quartiles of each column of each data set in the current step."""
    if len(given.sets) < 2:
        return
    for at, (name, data) in enumerate(given.sets.items()):
        saved = columns_name(name, HELD_OUT if at else TRAINED)
        plan = hook.plan(saved.name, saved.collections, role=saved.role, kind=saved.kind)
        rows = None if plan is None else some_rows(data)
        if plan is not None and rows is not None:
            hook.capture(plan, _quartiles(rows, data.feature_types or ()))


def _quartiles(rows: Any, types: Sequence[str]) -> NDArray[np.float64]:
    """Shape (columns, 4): the quartiles of the values that are there, and their number. Codes of
    categories have none, and count as missing."""
    by_column = rows.tocsc()
    found = np.zeros((by_column.shape[1], 4))
    for at, (begin, end) in enumerate(pairwise(by_column.indptr)):
        values = by_column.data[begin:end]
        values = values[np.isfinite(values)] if types[at : at + 1] != ["c"] else values[:0]
        found[at, 3] = values.size
        if values.size:
            found[at, :3] = np.quantile(values, (0.25, 0.5, 0.75))
    return found
