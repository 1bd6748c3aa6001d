"""Thinning: nothing extreme is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tocsin.report.thin import NEAR, digits, envelope, slices

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(NUMBERS, min_size=1, max_size=300), st.integers(2, 40), st.integers(0, 400))
def test_envelope_has_every_extreme(values: list[float], buckets: int, mark: int) -> None:
    steps, numbers = np.arange(len(values)) * 3, np.array(values)

    x, y, low, high = envelope(steps, numbers, buckets=buckets, marks=[mark])

    assert x == sorted(set(x))
    assert x[-1] == steps[-1]
    if low is None or high is None:
        assert len(x) == len(values)
        return
    kept = digits(numbers)
    begin = 0
    for step, least, most in zip(x, low, high, strict=True):
        end = int(np.searchsorted(steps, step)) + 1
        part = [value for value in kept[begin:end] if value is not None]
        assert (least, most) == ((min(part), max(part)) if part else (None, None))
        begin = end
    assert y[-1] == kept[-1]


def test_saves_around_a_mark_are_all_there() -> None:
    steps = np.arange(10_000)

    starts = slices(steps, 100, [5000])

    assert set(range(5000 - NEAR, 5000 + NEAR + 1)) <= set(starts.tolist())
    assert len(starts) <= 100 + 2 * NEAR + 2


def test_digits() -> None:
    assert digits([1.23456, -0.000123456, float("nan"), float("inf"), 0]) == [
        1.235,
        -0.0001235,
        None,
        None,
        0.0,
    ]
