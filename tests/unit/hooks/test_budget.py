"""How much rarer steps are saved when capturing costs too much."""

from __future__ import annotations

import pytest
from tocsin.model import Mode
from tocsin_hooks.budget import Budget, ModeBudgets
from tocsin_hooks.meter import Moment


def saves(budget: Budget, cost: float, period: float, count: int) -> list[int]:
    """The stretches that are decided on while every save costs the same. The first one begins with
    nothing spent."""
    decided = []
    for number in range(1, count + 1):
        stretch = budget.stretch
        if budget.observe(cost, cost + period * stretch, number * cost, stretch):
            decided.append(budget.stretch)
    return decided


@pytest.mark.parametrize(
    ("most", "cost", "period", "expected"),
    [
        (0.02, 1.0, 100.0, []),  # 1 %
        (0.02, 2.0, 98.0, []),  # 2 %
        (0.02, 1.0, 40.0, [2]),  # 2.4 %
        (0.02, 1.0, 10.0, [8]),
        (0.5, 1.0, 1.0, []),
        (1.0, 5.0, 0.001, []),
        (None, 5.0, 0.001, []),
        (0.0, 5.0, 1.0, [1024]),
    ],
)
def test_the_least_stretch_that_keeps_the_share(
    most: float | None, cost: float, period: float, expected: list[int]
) -> None:
    assert saves(Budget(most), cost, period, 20) == expected


@pytest.mark.parametrize(("spent", "stretched"), [(1.19, False), (1.21, True)])
def test_what_the_hook_takes_at_first_is_free(spent: float, stretched: bool) -> None:
    budget = Budget(0.02)
    for _ in range(4):
        budget.observe(0.01, 0.1, spent, 1)
    assert budget.observe(0.01, 0.1, spent, 1) is stretched


@pytest.mark.parametrize(
    ("most", "spent", "elapsed", "allowed"),
    [
        (0.02, 0.5, 1.0, True),
        (0.02, 0.7, 1.0, False),  # more than half of the allowance
        (0.02, 0.7, 100.0, True),  # and 0.7 % of the time
        (0.02, 1.1, 100.0, False),
        (None, 50.0, 100.0, True),
    ],
)
def test_looks_have_half_of_what_the_hook_may_take(
    most: float | None, spent: float, elapsed: float, allowed: bool
) -> None:
    assert ModeBudgets(most).allows_looks(spent, elapsed) is allowed


def test_one_slow_moment_decides_nothing() -> None:
    budget = Budget(0.02)
    saves(budget, 0.01, 10.0, 10)
    assert saves(budget, 60.0, 10.0, 1) == []
    assert saves(budget, 0.01, 10.0, 5) == []


def test_it_shrinks_when_a_quarter_would_do() -> None:
    budget = Budget(0.02)
    assert saves(budget, 1.0, 10.0, 10) == [8]
    assert saves(budget, 0.5, 10.0, 10) == []  # four would do
    assert saves(budget, 0.2, 10.0, 10) == [1]


def test_the_share_is_told() -> None:
    budget = Budget(0.02)
    saves(budget, 1.0, 9.0, 5)
    assert (budget.share, budget.stretch) == (pytest.approx(0.1), 8)


def both(most: float | None) -> tuple[int, int]:
    """The stretches of TRAIN, which costs 1 %, and of EVAL, which costs as much as it takes."""
    budgets = ModeBudgets(most)
    for now in range(0, 1000, 10):
        budgets.observe(Mode.TRAIN, 0.1, Moment(now, now), now, 1, now)
        budgets.observe(Mode.EVAL, 5.0, Moment(now, now), now, 1, now)
    return budgets.stretches[Mode.TRAIN], budgets.stretches[Mode.EVAL]


def test_evaluations_cost_no_step_of_training() -> None:
    train, evaluated = both(0.02)
    assert train == 1
    assert evaluated >= 64
    assert both(None) == (1, 1)


def test_a_mode_that_is_alone_has_the_whole_limit() -> None:
    budgets = ModeBudgets(0.02)
    for now in range(0, 1000, 10):
        budgets.observe(Mode.EVAL, 0.19, Moment(now, now), now, 1, now)  # 1.9 %
    assert budgets.stretches == {Mode.EVAL: 1}


def test_a_save_right_after_another_counts_with_the_next() -> None:
    """The step after a due one is saved in its place, too: two saves in each ten seconds."""
    budgets = ModeBudgets(0.02)
    for step in range(0, 1000, 10):
        for each in (step, step + 1):
            ends = float(step) + 0.1 * (each - step)
            budgets.observe(Mode.TRAIN, 0.15, Moment(ends, ends), ends, 1, each)
    assert budgets.stretches == {Mode.TRAIN: 2}


def test_time_that_others_had_the_processors_for_does_not_count() -> None:
    assert Moment(12.0, 6.0).since(Moment(2.0, 5.0)) == 1.0
    assert Moment(3.0, 9.0).since(Moment(2.0, 5.0)) == 1.0
