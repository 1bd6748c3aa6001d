"""The monthly bill: what the template contains, and what jobs add."""

from __future__ import annotations

import pytest

from benchmarks.costs import fixed, training


def test_the_fixed_part_counts_the_template() -> None:
    kinds = ["KMS::Key", "CloudWatch::Alarm", "CloudWatch::Alarm", "SQS::Queue"]
    template = {"Resources": {str(at): {"Type": f"AWS::{kind}"} for at, kind in enumerate(kinds)}}
    rows = {row.name: row for row in fixed(template, 256)}
    assert rows["alarms"].dollars == pytest.approx(0.2)
    assert rows["KMS key"].dollars == 1
    assert rows["dashboard"].dollars == 0
    assert rows["invocations of patrol, with logs"].number == 43_200


def test_the_part_of_jobs_grows_with_their_hours_and_saves() -> None:
    calls = [("s3.PutObject", {})]
    once, twice = (sum(row.dollars for row in training(calls, h, 10)) for h in (24, 48))
    rare = sum(row.dollars for row in training(calls, 24, 100))
    assert twice == pytest.approx(2 * once)
    assert rare < once / 5
