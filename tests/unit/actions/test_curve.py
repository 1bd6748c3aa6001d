from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.actions.curve import curve, measure, sparkline

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), ""),
        ((3.0,), "▁"),
        ((1.0, 1.0, 1.0), "▁▁▁"),
        (range(8), "▁▂▃▄▅▆▇█"),
        ((7, 0), "█▁"),
        ((0.0, NAN, 1.0, INF, -INF), "▁×█××"),
        ((NAN, NAN), "××"),
        ((-1.7e308, 0.0, 1.7e308), "▁▅█"),
        ((0.0, 5e-324), "▁▁"),
    ],
)
def test_sparkline(values: Sequence[float], expected: str) -> None:
    assert sparkline(values) == expected


@given(st.lists(st.floats()))
def test_any_values_have_a_line(values: list[float]) -> None:
    line = sparkline(values)
    assert len(line) == len(values)
    assert [char == "×" for char in line] == [not math.isfinite(value) for value in values]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], ""),
        ([(4, 1.0)], ""),
        ([(4, 1.0), (8, 2.5)], "▁█ mean: min 1, max 2.5, last 2.5, steps 4 to 8"),
        ([(4, 3.0), (8, NAN)], "▁× mean: min 3, max 3, last not finite, steps 4 to 8"),
        ([(4, NAN), (8, NAN)], "×× mean: last not finite, steps 4 to 8"),
    ],
)
def test_curve(points: list[tuple[int, float]], expected: str) -> None:
    assert curve(points, "mean") == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({"abs_mean": 1.0, "threshold": 2.0}, "abs_mean"),
        ({"nan": 3, "size": 5}, "mean"),
        ({"zeros": 3}, "zeros"),
        ({"threshold": 2.0, "abs_mean": 1.0}, "mean"),
        ({}, "mean"),
        ({"fingerprint": "ab"}, "mean"),
        ({"quantiles": 1.0}, "mean"),
        ({"__class__": 1.0}, "mean"),
    ],
)
def test_measure(make_alert: Any, evidence: dict[str, Any], expected: str) -> None:
    assert measure(make_alert(Evidence=evidence)) == expected
