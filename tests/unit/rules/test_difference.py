from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tocsin.model import TensorSummary
from tocsin.rules.workers._difference import times_tolerance
from tocsin.tensors import summarize

NAN, INF = float("nan"), float("inf")


def of(values: Any) -> TensorSummary:
    return summarize(np.asarray(values))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0], 0.0, id="the same"),
        pytest.param([NAN, INF], [NAN, INF], 0.0, id="the same, not finite"),
        pytest.param([], [], 0.0, id="empty"),
        pytest.param([1.0, 2.0], [2.0, 1.0], 0.0, id="another order"),
        pytest.param([1.0, 2.0], [1.0, 2.02], 1.0, id="the largest, by the tolerance"),
        pytest.param([-2.0, 1.0], [-2.04, 1.0], 2.0, id="the least"),
        pytest.param([1.0, -1.0], [1.1, -0.9], 10.0, id="means that cancel"),
        pytest.param([3.0], [3.0, 3.0], INF, id="size"),
        pytest.param([1.0, 1.0], [1.0, NAN], INF, id="NaN in one"),
        pytest.param([1.0, INF], [1.0, -INF], INF, id="infinities"),
        pytest.param([0.0], [-0.0], 0.0, id="zeros"),
        pytest.param([0], [1], 100.0, id="integers, from zero"),
        pytest.param([1e308], [-1e308], INF, id="beyond float"),
        pytest.param(["a"], ["b"], 0.0, id="text: only sizes are known"),
    ],
)
def test_in_hundredths_of_the_scale(one: Any, other: Any, expected: float) -> None:
    assert times_tolerance(of(one), of(other), rtol=0.01) == pytest.approx(expected, rel=0.03)
    assert times_tolerance(of(other), of(one), rtol=0.01) == pytest.approx(expected, rel=0.03)


def test_unknown_fields_count_for_nothing() -> None:
    assert times_tolerance(TensorSummary(), of([1.0]), 0.01) == 0.0
    assert times_tolerance(TensorSummary(l2=1.0), TensorSummary(l2=1.1), 0.01) == pytest.approx(
        100 / 11
    )
    assert times_tolerance(TensorSummary(mean=2.0), TensorSummary(mean=2.2), 0.01) == pytest.approx(
        100 / 11
    )


@pytest.mark.parametrize(
    ("rtol", "atol", "expected"), [(0, 0, INF), (0.0, 0.1, 0.0), (0.1, 0, 0.0)]
)
def test_without_tolerance_the_fingerprint_decides(
    rtol: float, atol: float, expected: float
) -> None:
    assert times_tolerance(of([1.0, 2.0]), of([2.0, 1.0]), rtol, atol) == expected
    assert times_tolerance(of([1.0, 2.0]), of([1.0, 2.0]), rtol, atol) == 0.0


finite = st.floats(-1e6, 1e6)
