"""Silences cover jobs, rules and severities, until they expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tocsin.alerts import AlertGroup, Hold, RuleAlert
from tocsin.alerts.silence import silence
from tocsin.alerts.stage import Batch, View
from tocsin.model import Severity
from tocsin.watch import Silence

from tests.unit.alerts.world import EPOCH, alert

IN_AN_HOUR = datetime.fromtimestamp(EPOCH, UTC) + timedelta(hours=1)
SILENCE = Silence(IN_AN_HOUR, author="ana", reason="known", id="s1")


def silenced(*silences: Silence, now: float = EPOCH, firing: bool = True, **fields: Any) -> Batch:
    notes = {"A": RuleAlert(alert("A", firing=firing, **fields), EPOCH)}
    batch = Batch("email", notes if firing else {}, {} if firing else notes)
    return silence(batch, View(AlertGroup("s3://b/r", alerts=notes), silences, now))


@pytest.mark.parametrize(
    ("given", "covered"),
    [
        pytest.param({}, True, id="everything"),
        pytest.param({"job": "j*"}, True, id="the job by a glob"),
        pytest.param({"job": "J1"}, False, id="in capitals"),
        pytest.param({"job": "other-*"}, False, id="another job"),
        pytest.param({"rule": "A"}, True, id="the rule"),
        pytest.param({"rule": "B"}, False, id="another rule"),
        pytest.param({"severity": Severity.WARNING}, True, id="the severity"),
        pytest.param({"severity": Severity.INFO}, False, id="another severity"),
        pytest.param({"job": "j1", "rule": "B"}, False, id="the job, but another rule"),
    ],
)
@pytest.mark.parametrize("firing", [True, False])
def test_what_a_silence_covers(given: dict[str, Any], covered: bool, firing: bool) -> None:
    batch = silenced(Silence(IN_AN_HOUR, **given), firing=firing)
    assert ("A" not in {**batch.firing, **batch.resolved}) == covered


def test_it_says_whose_it_is_and_until_when() -> None:
    (held,) = silenced(SILENCE).held
    assert held.reason is Hold.SILENCED
    assert held.detail == "s1 by ana until 2027-01-15T09:00Z: known"
    assert held.until == EPOCH + 900, "it may be ended early"


def test_the_last_silence_counts_and_then_it_is_sent() -> None:
    longer = Silence(IN_AN_HOUR + timedelta(minutes=5), id="s2")
    (held,) = silenced(SILENCE, longer, now=EPOCH + 3600).held
    assert (held.detail, held.until) == ("s2 until 2027-01-15T09:05Z", EPOCH + 3900)
    assert silenced(SILENCE, now=EPOCH + 3600).firing


def test_those_of_a_watch_file_come_with_the_alert() -> None:
    own = {"Until": IN_AN_HOUR.isoformat(), "Job": "j*", "Id": "watch file"}
    assert silenced(Silences=[own]).firing == {}
    assert silenced(Silences=[{**own, "Job": "other"}]).firing
    assert silenced(Silences=[own], now=EPOCH + 3600).firing
