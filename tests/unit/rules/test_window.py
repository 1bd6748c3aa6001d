from __future__ import annotations

import math
from typing import Any

import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import HEALTHY, UNDECIDED, Step, Tensor
from tocsin.rules._curve import Curve, any_moved, better
from tocsin.rules._series import points
from tocsin.rules._verdicts import worst_verdict
from tocsin.rules._window import (
    half_range,
    in_digits,
    level,
    median_deviation,
    percent_decrease,
    quantile,
    rounded,
    thinned,
    tracked,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ([], (NAN, 0.0, 0.0)),
        ([None], (INF, 0.0, 0.0)),
        ([3.0], (3.0, 0.0, 0.0)),
        ([1.0, 2.0, 9.0], (2.0, 1.0, 4.0)),
        ([1.0, None, 2.0], (2.0, 0.5, 0.5)),
        ([1.0, None, None], (INF, 0.0, 0.0)),
        ([-8e307, 8e307], (0.0, 8e307, 8e307)),
    ],
)
def test_level_spread_and_reach(window: list[float | None], expected: Any) -> None:
    found = level(window), median_deviation(window), half_range(window)
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1 / 3, 0.333333), (123456789.0, 123457000.0), (NAN, None), (-INF, None), (0.0, 0.0)],
)
def test_six_digits_are_kept(number: float, expected: float | None) -> None:
    assert rounded(number) == expected


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((), ()),
        ((0.4, 2.3), ("0.4", "2.3")),
        ((2.3, 2.3), ("2.3", "2.3")),
        ((108.28, 108.17, 108.13), ("108.3", "108.2", "108.1")),
        ((1.0, 1.0 + 1e-12), ("1", "1")),
        ((NAN, INF), ("nan", "inf")),
    ],
)
def test_digits_that_show_a_difference(
    numbers: tuple[float, ...], expected: tuple[str, ...]
) -> None:
    assert in_digits(*numbers) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ([2.0, 2.0, 2.0], [1.9, 1.9, 1.9], True),
        ([2.0, 2.0, 2.0], [1.99, 1.99, 1.99], False),
        ([2.0, 2.0, 2.0], [2.1, 2.1, 2.1], False),
        ([2.0, 2.0, 2.0], [1.8, 1.9, 2.0], False),  # noise
        ([2.1, 2.0, 1.9], [1.6, 1.6, 1.6], True),
        ([-2.0, -2.0], [-2.1, -2.1], True),
        ([], [], False),
        ([None], [1.0], True),
        ([None], [None], False),
    ],
)
def test_a_cost_leaves_its_start(
    first: list[float | None], last: list[float | None], expected: bool
) -> None:
    assert Curve(first, last).left_its_start is expected


@pytest.mark.parametrize(
    ("best", "number", "expected"),
    [(None, 2.0, 2.0), (None, INF, None), (0.0, 2.0, 0.0), (3.0, INF, 3.0), (3.0, 1 / 3, 0.333333)],
)
def test_the_best_so_far(best: float | None, number: float, expected: float | None) -> None:
    assert better(best, number) == expected


@pytest.mark.parametrize(
    ("q", "expected"), [(0.0, 1.0), (0.25, 1.0), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)]
)
def test_quantile(q: float, expected: float) -> None:
    assert quantile([4.0, 2.0, 3.0, 1.0], q) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (2.0, 1.0, 50.0),
        (-2.0, -1.0, -50.0),
        (0.0, 0.0, 0.0),
        (0.0, 1.0, -100.0),
        (0.0, -1.0, 100.0),
    ],
)
def test_percent_down(before: float, after: float, expected: float) -> None:
    assert percent_decrease(before, after) == expected


def test_thinned_in_between() -> None:
    saves: Any = []
    for at in range(100):
        saves = thinned(saves, [at, 0.0], 2, 10)
    assert [step for step, _ in saves] == [0, 1, *range(11, 98, 10), 98, 99]


def test_only_so_many_series_are_followed() -> None:
    names = [f"loss{number}" for number in range(8)]
    state: dict[str, Any] = {}
    for mode in (Mode.TRAIN, Mode.EVAL, Mode.PREDICT, Mode.TRAIN):
        tensors = [Tensor(name, "worker_0", TensorSummary(mean=1.0)) for name in names]
        found = list(tracked(state, points(Step(0, mode, 0, 0.0), tensors)))
        assert len(found) == (0 if mode is Mode.PREDICT else 8)
        state |= {point.key: {} for point in found}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, False),
        ({"TRAIN/a": {}}, False),
        ({"TRAIN/a": {"fell": True}}, True),
        ({"TRAIN/a": {"rose": True}}, False),
        ({"TRAIN/a": {"rose": True}, "EVAL/a": {}}, False),
        ({"TRAIN/a": {"rose": True}, "TRAIN/b": {}}, True),
        ({"TRAIN/a": {}, "EVAL/a": {"fell": True}}, True),
    ],
)
def test_whether_losses_moved(state: Any, expected: bool) -> None:
    assert any_moved(state) is expected


def bad(number: float | str) -> Verdict:
    return Verdict(Outcome.VIOLATION, Reason.INCREASING, evidence={"loss": number})


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], 0),
        ([UNDECIDED, HEALTHY], 2),
        ([HEALTHY, bad(1.0), bad(3.0), bad(2.0)], 3),
        ([bad(3.0), bad(NAN), UNDECIDED], 2),
        ([bad(1.0), bad("1")], 2),
        ([bad(1.0), bad(1.0)], 1),
    ],
)
def test_the_worst_of_several_verdicts(verdicts: list[Verdict], expected: int) -> None:
    """``expected`` counts from 1; 0 is UNDECIDED."""
    assert worst_verdict(verdicts) is [UNDECIDED, *verdicts][expected]
