"""A watch file with parts that cannot be used."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from tocsin.model import Severity
from tocsin.watch import (
    BadWatch,
    Capture,
    Notify,
    RuleConfig,
    Silence,
    Watch,
    faults,
    parse_parts,
    to_watch,
)

from .test_load import anything, watches

UNTIL = "2026-12-01T08:00:00Z"
TIME = datetime(2026, 12, 1, 8, tzinfo=timezone.utc)


def parsed(content: Any, now: datetime | None = None) -> tuple[Watch, list[str]]:
    watch, found = parse_parts(json.dumps(content).encode(), now=now)
    return watch, [str(fault) for fault in found]


@pytest.mark.parametrize(
    ("content", "watch", "starts"),
    [
        ({"rules": ["A"], "speed": 1}, Watch(rules=(RuleConfig("A"),)), ["speed: unknown key"]),
        (
            {"notify": {"group_wait": [], "repeat_interval": "1h", "wait": "1s"}},
            Watch(notify=Notify(repeat_interval="1h")),
            [
                "notify.group_wait: expected a number or a text",
                "notify.wait: unknown key",
            ],
        ),
        ({"notify": "now"}, Watch(), ["notify: expected a mapping, got a text"]),
        (
            {"rules": [{"rule": "A", "inhibits": "B"}, "B"]},
            Watch(rules=(RuleConfig("A"), RuleConfig("B"))),
            ["rules[0].inhibits: expected a list, got a text"],
        ),
        (
            {"rules": [{"rule": "A", "inhibits": ["B"] * 51}]},
            Watch(rules=(RuleConfig("A"),)),
            ["rules[0].inhibits: expected a list of length <= 50"],
        ),
        (
            {"silences": [{"until": UNTIL}, {"job": "a"}, {"until": "soon"}, {"until": 0}, 7]},
            Watch(silences=(Silence(TIME),)),
            [
                "silences[1]: has no `until`: say when it ends, such as 2026-12-01T08:00Z",
                "silences[2].until: 'soon' is not a time with a time zone, such as 2026-12",
                "silences[3].until: 0 is not a time with",
                "silences[4]: expected a mapping, got a whole number",
            ],
        ),
        (
            {"silences": [{"until": "2026-12-01T08:00:00"}, {"until": "2026-12-01"}]},
            Watch(),
            ["silences[0].until: '2026-12-01T08:00:00' is not a time", "silences[1].until: "],
        ),
        (
            {"silences": [{"until": "9999-12-31T23:00:00-02:00"}, {"until": UNTIL}]},
            Watch(silences=(Silence(TIME),)),
            ["silences[0].until: '9999-12-31T23:00:00-02:00' is not a time"],
        ),
        (
            {"silences": [{"until": UNTIL, "severity": "fatal"}, {"until": UNTIL, "id": "x"}]},
            Watch(),
            ["silences[0].severity: invalid enum value", "silences[1].id: unknown key"],
        ),
        ({"silences": {}}, Watch(), ["silences: expected a list, got a mapping"]),
        (
            {"capture": {"interval": 1}, "dry_run": True},
            Watch(capture=Capture(), dry_run=True),
            ["capture: unknown key 'interval'"],
        ),
        (
            {"rules": ["A", {"rule": "B", "for_steps": "x", "every": "y", "severity": "info"}]},
            Watch(rules=(RuleConfig("A"), RuleConfig("B", severity=Severity.INFO))),
            [
                "rules[1].for_steps: expected a whole number",
                "rules[1].every: expected a whole number",
            ],
        ),
    ],
)
def test_the_rest_can_be_used(content: Any, watch: Watch, starts: list[str]) -> None:
    found, problems = parsed(content)
    assert found == watch
    assert len(problems) == len(starts)
    for problem, start in zip(problems, starts, strict=True):
        assert problem.startswith(start)
    with pytest.raises(BadWatch) as caught:
        to_watch(content)
    assert str(caught.value) == problems[0]


def test_at_most_100_silences() -> None:
    watch, problems = parsed({"silences": [{"until": UNTIL}] * 101})
    assert len(watch.silences) == 100
    assert problems == ["silences: 101 silences, but at most 100 are kept"]


@pytest.mark.parametrize(("now", "expired"), [(TIME, True), (TIME.replace(hour=7), False)])
def test_a_silence_that_is_over_is_told_if_asked_for(now: datetime, expired: bool) -> None:
    content = {"silences": [{"job": "a"}, {"until": UNTIL}]}
    watch, problems = parsed(content, now)
    assert watch.silences == (Silence(TIME),)
    assert (f"silences[1].until: '{UNTIL}' has expired" in problems) is expired
    assert len(parsed(content)[1]) == 1


def test_places_stay_true_behind_what_cannot_be_used() -> None:
    content = {"rules": [7, {"rule": "Overfitt"}]}
    watch, found = parse_parts(json.dumps(content).encode())
    paths = [fault.path for fault in [*found, *faults(watch)]]
    assert paths[0] == ("rules", 0)
    assert paths[-1] == ("rules", 1, "rule")


@pytest.mark.parametrize(
    ("content", "mild"),
    [
        ({"notify": {"group_wait": []}}, True),
        ({"silences": [{}]}, True),
        ({"rules": [{"rule": "A", "inhibits": 1}]}, True),
        ({"rules": [{"rule": "A", "every": "x"}]}, False),
        ({"speed": 1}, False),
        ({"capture": 1}, False),
    ],
)
def test_what_leaves_the_rules_as_they_are_is_mild(content: Any, mild: bool) -> None:
    _, (fault,) = parse_parts(json.dumps(content).encode())
    assert fault.mild is mild


@given(anything | watches)
def test_what_is_surveyed_without_fault_is_the_watch(content: Any) -> None:
    data = json.dumps(content).encode()
    try:
        watch, found = parse_parts(data)
    except BadWatch:
        return
    assert all(len(str(fault).splitlines()) == 1 for fault in [*found, *faults(watch)])
    if not found:
        assert to_watch(json.loads(data)) == watch
