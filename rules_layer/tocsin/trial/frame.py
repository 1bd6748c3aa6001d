"""A run as a table of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tocsin.trial.rows import KEYS, NUMBERS, Row


def dataframe(rows: Sequence[Row]) -> Any:
    """Rows as a DataFrame, with those columns that any row has. ``value`` is always there.

    Raises ModuleNotFoundError where pandas is not installed.
    """
    try:
        pd = import_module("pandas")
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "trial.dataframe needs pandas: pip install pandas", name=missing.name
        ) from None
    used = {"value"}.union(*rows)
    return pd.DataFrame(rows, columns=[*KEYS, *(column for column in NUMBERS if column in used)])
