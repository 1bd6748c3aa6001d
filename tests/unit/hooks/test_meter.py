from __future__ import annotations

import time

import pytest
from tocsin_hooks.meter import Meter


def test_what_is_nested_counts_once_and_a_call_with_what_is_around_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meter, now = Meter(), [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now[0])
    meter.around = 0.25
    with meter:
        now[0] += 1.0
        with meter:
            now[0] += 1.0
    with meter:
        now[0] += 0.5
    meter.add(4.0)
    assert meter.seconds == 2.0 + 0.25 + 0.5 + 0.25 + 4.0
