from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from tocsin.model import Severity
from tocsin.watch import Silence, resolve, to_watch

UNTIL = datetime(2026, 12, 1, 8, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("silence", "covers"),
    [
        ({}, True),
        ({"job": "nightly-*"}, True),
        ({"job": "nightly"}, False),
        ({"job": "Nightly-*"}, False),
        ({"rule": "*-loss"}, True),
        ({"rule": "train-loss"}, False),
        ({"severity": Severity.WARNING}, True),
        ({"severity": Severity.CRITICAL}, False),
        ({"job": "nightly-[12]", "rule": "eval-????", "severity": Severity.WARNING}, True),
    ],
)
def test_what_a_silence_covers(silence: dict[str, Any], covers: bool) -> None:
    assert Silence(UNTIL, **silence).covers("nightly-1", "eval-loss", Severity.WARNING) is covers


def test_a_rule_knows_the_silences_that_cover_it_in_some_job() -> None:
    until = "2026-12-01T08:00:00Z"
    watch = to_watch(
        {
            "severity": "warning",
            "rules": [
                {"rule": "VanishingGradient", "severity": "critical"},
                {"rule": "Overfit", "name": "gap", "inhibits": ["gap", "VanishingGradient"]},
            ],
            "silences": [
                {"until": until, "job": "nightly-*"},
                {"until": until, "severity": "critical", "reason": "b"},
                {"until": until, "rule": "gap", "reason": "c"},
            ],
        }
    )
    (vanishing, gap), () = resolve(watch)
    assert [silence.reason for silence in vanishing.silences] == ["", "b"]
    assert [silence.reason for silence in gap.silences] == ["", "c"]
    assert gap.inhibits == ("VanishingGradient",)
