"""The simulated queue does what the deployed one does."""

from __future__ import annotations

import pytest

from benchmarks._simulation import Times, percentile, simulate
from benchmarks.scale import DEFAULT, fairness

TIMES = Times(look=0.2, step=0.01, held=0.02, cold=2.0, notice=0.5)


def test_a_save_waits_for_its_notice_the_cold_start_and_its_look() -> None:
    found = simulate([(10.0, 0), (20.0, 0)], [0.0], TIMES)
    assert [lag for _, lag, _ in found.lags] == pytest.approx([2.7, 0.7])
    assert (found.invocations, found.most) == (2, 1)


def test_saves_that_wait_together_are_one_look() -> None:
    found = simulate([(0.0, 0)] * 10, [0.0], TIMES)
    assert found.invocations == 1
    assert [lag for _, lag, _ in found.lags] == pytest.approx([0.5 + 2.0 + 0.2 + 9 * 0.01] * 10)


def test_a_run_is_looked_at_by_one_invocation_at_a_time() -> None:
    found = simulate([(0.0, 0), (0.1, 0)], [0.0, 0.0], TIMES, batch=1)
    assert found.busy == pytest.approx(2.0 + 0.2 + 2.0 + 0.2, abs=0.2)
    assert len(found.lags) == 2


@pytest.mark.parametrize("patience", [2.0, 1000.0])
def test_a_backlog_delays_others_only_as_long_as_they_have_patience(patience: float) -> None:
    """Without it, whoever is in one batch with the run waits for its share of the time."""
    saves = [(at / 2, 1 + at % 20) for at in range(400)]
    found = simulate(saves, [0.0, 0.0], TIMES, backlog={0: 20_000}, patience=patience, share=30.0)
    assert len(found.lags) == 400  # each save has its verdict
    slowest = max(lag for at, lag, _ in found.lags if at > 60)
    assert (slowest < 5) == (patience < 5)


def test_fresh_runs_beside_a_backlog_and_many_files_wait_less_than_twice_as_long() -> None:
    times = Times(look=0.17, step=0.01, held=0.0105, cold=2.5, notice=0.5)  # as docs/scale.md has
    assert fairness(times, DEFAULT, 600.0)["ratio"] < 2


def test_percentile() -> None:
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 3.0
    assert percentile(range(100), 0.95) == 95
