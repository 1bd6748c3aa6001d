from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.alerts.aws import counted
from tocsin.parsing import StopLimit

TWO = StopLimit(most=2, seconds=600.0)


@pytest.mark.parametrize(
    ("stops", "run", "after"),
    [
        ({}, "a", {"a": 1000.0}),
        ({"a": 990.0}, "b", {"a": 990.0, "b": 1000.0}),
        ({"a": 990.0, "b": 995.0}, "c", None),
        ({"a": 990.0, "b": 995.0}, "b", {"a": 990.0, "b": 995.0}),  # once more is no other
        ({"a": 399.0, "b": 995.0}, "c", {"b": 995.0, "c": 1000.0}),
        ({"a": 400.0, "b": 995.0}, "c", {"b": 995.0, "c": 1000.0}),  # just over
        ({"a": 400.1, "b": 995.0}, "c", None),
        ({"a": 399.0}, "a", {"a": 1000.0}),
        ({"a": 2000.0, "b": 2000.0}, "c", None),  # another machine's clock is ahead
    ],
)
def test_counts_runs_within_the_window(
    stops: dict[str, float], run: str, after: dict[str, float] | None
) -> None:
    assert counted(stops, run, TWO, 1000.0) == after


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 500)), max_size=40),
    st.integers(1, 4),
)
def test_never_more_runs_than_the_limit_in_any_window(
    tries: list[tuple[str, int]], most: int
) -> None:
    limit, now = StopLimit(most, 600.0), 0
    stops: dict[str, float] = {}
    allowed: list[tuple[float, str]] = []
    for run, gap in tries:
        now += gap
        after = counted(stops, run, limit, now)
        if after is not None:
            stops = dict(after)
            if stops[run] == now:
                allowed.append((now, run))
    for start, _ in allowed:
        window = [run for at, run in allowed if start <= at < start + limit.seconds]
        assert len(set(window)) <= most
