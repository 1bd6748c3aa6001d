"""Some rows of a data set of XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost as xgb

_MOST_COLUMNS = 1024
_MOST_VALUES = 1 << 22  # of a data set that is looked at as a whole: others by some of their rows
_MOST_ROWS = 4096


def some_rows(data: Any) -> Any:
    """Return the rows as a sparse matrix, in the order of the data set, and of one in quantiles the
    values that it keeps. None if they are too many, or not to be had."""
    if not isinstance(data, xgb.DMatrix) or not 0 < data.num_col() <= _MOST_COLUMNS:
        return None
    if data.num_nonmissing() <= _MOST_VALUES:
        return data.get_data()
    if type(data) is not xgb.DMatrix:
        return None  # one in quantiles cannot be divided
    rows = np.linspace(0, data.num_row() - 1, _MOST_ROWS).astype(np.int64)
    return data.slice(rows, allow_groups=True).get_data()
