"""A label among the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin_hooks.leaks import column_of

DRAW = np.random.default_rng(0)
TABLE = DRAW.standard_normal((64, 5))
NUMBERS = TABLE[:, 3]
CLASSES = (NUMBERS > 0).astype(np.int64)


def with_column(column: Any, table: Any = TABLE) -> Any:
    return np.concatenate([table, np.asarray(column, np.float64).reshape(-1, 1)], 1)


@pytest.mark.parametrize(
    ("labels", "inputs", "expected"),
    [
        (NUMBERS, TABLE, True),
        (NUMBERS[:, None], TABLE, True),
        (NUMBERS.astype(np.float32), TABLE.astype(np.float32), True),
        (CLASSES, with_column(CLASSES), True),
        (CLASSES, TABLE, False),
        (NUMBERS, np.where(np.arange(5) == 3, np.nan, TABLE), False),
        (NUMBERS, with_column(np.full(64, np.inf)), True),
        (NUMBERS, TABLE[:, [0, 1, 2, 4]], False),
        (NUMBERS + 0.01 * DRAW.standard_normal(64), TABLE, False),
        (NUMBERS, TABLE[:, 2:4], False),  # two columns: one may determine it
        (NUMBERS[:8], TABLE[:8], False),  # too few
        (np.ones(64), with_column(np.ones(64)), False),
        (np.eye(64)[0], with_column(np.eye(64)[0]), False),  # one sample decides
        (np.where(np.arange(64) == 3, np.nan, NUMBERS), TABLE, False),
        (TABLE, TABLE, False),
        (NUMBERS, TABLE[None], False),
        (np.zeros(0), np.zeros((0, 5)), False),
        (np.float64(1.0), np.zeros((1, 5)), False),
    ],
)
def test_cases(labels: Any, inputs: Any, expected: bool) -> None:
    assert (column_of(np.asarray(labels), inputs) is not None) is expected


@given(
    factor=st.floats(1e-3, 1e3).flatmap(lambda size: st.sampled_from([size, -size])),
    constant=st.floats(-1e3, 1e3),
)
def test_units_do_not_matter(factor: float, constant: float) -> None:
    assert column_of(factor * NUMBERS + constant, TABLE) == 3
