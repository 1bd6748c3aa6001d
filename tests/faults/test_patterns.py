"""All patterns of one look have a second together, each of them a tenth for a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.room import START, Room, SlowPattern

BUDGET = 1.0


def test_the_patterns_of_a_look_have_one_second_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = "(x+x+)+y"
    slow = {"rule": "ExplodingTensor", "parameters": {"tensor_regex": [pattern]}}
    room = Room(tmp_path, {"rules": [slow, "VanishingGradient"]}, now=START + 10)
    job = room.job()
    names = [f"{'x' * 100}{number}" for number in range(300)]
    job.write_index(0, None, ["gradient/fc", *names])
    found = SlowPattern(monkeypatch, pattern, seconds=0.07)
    room.look(job)
    assert room.known(job).steps == 1
    assert room.known(job).rules["VanishingGradient"].data_points == 1
    assert 0 < found.spent <= BUDGET + 0.1


def test_a_pattern_that_takes_too_long_for_a_name_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = "(x+x+)+y"
    slow = {"rule": "ExplodingTensor", "parameters": {"tensor_regex": [pattern]}}
    room = Room(tmp_path, {"rules": [slow, "VanishingGradient"]}, now=START + 10)
    job = room.job()
    job.write_index(0, None, [f"{'x' * 1000}{number}" for number in range(300)])
    found = SlowPattern(monkeypatch, pattern, seconds=60.0)
    room.look(job)
    assert room.known(job).steps == 1
    assert 0 < found.spent <= BUDGET
