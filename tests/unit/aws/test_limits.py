from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.aws.limits import Stop, free_at
from tocsin.parsing import StopLimit

TWO = StopLimit(most=2, seconds=600.0)
THREE = StopLimit(most=3, seconds=600.0)


@pytest.mark.parametrize(
    ("stops", "at"),
    [
        ([], 0.0),
        ([(990.0, "team")], 0.0),
        ([(990.0, "team"), (995.0, "team")], 1590.0),
        ([(995.0, "team"), (990.0, "team")], 1590.0),
        ([(980.0, "team"), (990.0, "team"), (995.0, "team")], 1590.0),
        ([(990.0, "team"), (995.0, "other")], 0.0),  # each owner by itself
        ([(990.0, "noisy"), (995.0, "noisy")], 0.0),
        ([(985.0, "noisy"), (990.0, "noisy"), (995.0, "other")], 1585.0),  # the ceiling
        ([(2000.0, "team"), (2000.0, "team")], 2600.0),  # another machine's clock is ahead
    ],
)
def test_when_one_more_may_be_stopped(stops: list[Stop], at: float) -> None:
    assert free_at(stops, "team", TWO, THREE) == at


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 500)), max_size=40),
    st.integers(1, 4),
)
def test_never_more_stops_than_the_limits_in_any_window(
    tries: list[tuple[str, int]], most: int
) -> None:
    limit, ceiling, now = StopLimit(most, 600.0), StopLimit(most + 1, 600.0), 0
    stops: list[Stop] = []
    for owner, gap in tries:
        now += gap
        if free_at(stops, owner, limit, ceiling) <= now:
            stops.append((float(now), owner))
    for start, owner in stops:
        window = [each for at, each in stops if start <= at < start + 600.0]
        assert window.count(owner) <= limit.most
        assert len(window) <= ceiling.most
