"""A run cannot block what is published of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.room import BAD, START, Bus, Room

AT_ONCE = {"rule": "VanishingGradient", "for_steps": 1}


def test_a_run_that_says_too_much_is_published_all_the_same(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": []}, now=START + 100)
    job = room.job()
    patterns = [f"{number}" + '"' * 450 for number in range(320)]  # in JSON twice as long
    never = {"rule": "ExplodingTensor", "parameters": {"tensor_regex": patterns}}
    job.watch({"rules": [AT_ONCE, never]})
    for step in range(3):
        job.save(step, previous=step - 1 if step else None, gradient=BAD)
        assert room.tried(job) == ""
    job.end_at(START + 5)  # now it is said what the rule looked for
    assert [room.tried(job) for _ in range(3)] == [""] * 3
    assert room.known(job).unpublished == 0
    (fired,) = room.changes("VanishingGradient")
    assert fired["RuleEvaluationStatus"] == "IssuesFound"
    assert len(room.changes("ExplodingTensor")) == len(room.summaries) == 1


def test_an_event_that_the_bus_refuses_is_published_in_a_short_form(tmp_path: Path) -> None:
    def is_refused(detail: str) -> bool:
        content = json.loads(detail)
        return content.get("RuleConfigurationName") == "refused" and not is_short(content)

    def is_short(content: dict[str, Any]) -> bool:
        return bool(content.get("truncated") or content.get("Truncated"))

    room = Room(tmp_path, {"rules": []}, now=START + 100, bus=Bus(malformed=is_refused))
    job = room.job()
    job.watch({"rules": [{**AT_ONCE, "name": name} for name in ("first", "refused", "last")]})
    job.save(0, previous=None, gradient=BAD)
    outcomes = [room.tried(job) for _ in range(4)]
    published = [change["RuleConfigurationName"] for change in room.changes()]
    assert sorted(published) == ["first", "last", "refused"]
    assert [is_short(change) for change in room.changes("refused")] == [True]
    assert outcomes[-1] == ""
    assert room.known(job).unpublished == 0


@pytest.mark.parametrize(
    "content",
    [
        {
            "rules": [
                {
                    "rule": "VanishingGradient",
                    "for_steps": 1,
                    "name": "\x01" * 256,
                    "actions": ["\x01" * 512] * 20,
                    "inhibits": ["\x01" * 256] * 50,
                }
            ],
            "notify": {"summary": ["email:" + "\x01" * 500 + "@a.b"] * 20},
        },
        {"rules": ["VanishingGradient"], "x" * 300_000: 1},
        {"rules": [{"rule": "VanishingGradient", "parameters": {"tensor_regex": ["(" * 900]}}]},
    ],
    ids=["control characters", "a long key", "a pattern that does not compile"],
)
def test_odd_texts_in_a_runs_own_file_hold_nothing_back(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    room = Room(tmp_path, {"rules": []}, now=START + 100)
    job = room.job()
    job.watch(content)
    for step in range(4):
        job.save(step, previous=step - 1 if step else None, gradient=BAD)
        assert room.tried(job) == ""
    assert room.known(job).unpublished == 0
