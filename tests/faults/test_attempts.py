"""An attempt counts against the step that it failed at, and against nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.room import START, Room

RECOMMENDED = {"profile": "recommended"}
VANISHING = {"rules": ["VanishingGradient"]}


@pytest.mark.parametrize(
    ("port", "call"),
    [
        ("jobs", "describe"),
        ("storage", "list"),
        ("storage", "head"),
        ("storage", "read"),
        ("checkpoints", "load"),
        ("checkpoints", "save"),
    ],
)
def test_throttling_is_no_attempt_at_a_step(tmp_path: Path, port: str, call: str) -> None:
    room = Room(tmp_path, RECOMMENDED, now=START + 100)
    job = room.job()
    job.steps(1)
    room.failing(port, call, times=5)
    for _ in range(6):
        room.tried(job)
        room.wait(0.3)
    for step in range(1, 6):
        job.save(step, previous=step - 1)
    room.look(job)
    job.end_at(START + 5)
    room.wait(5)
    room.look(job)
    assert room.known(job).steps == 6
    assert room.known(job).rules == room.checked(job).rules


def test_error_by_a_step_that_was_given_up_ends_at_the_next_that_is_judged(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(2)
    for _ in range(5):
        room.cut_off(job)
        room.wait(900)
    room.look(job)
    job.save(2, previous=1)
    room.look(job)
    room.pass_time(900)
    assert room.known(job).last_step == 2
    assert room.known(job).statuses == {"VanishingGradient": "InProgress"}


def test_a_run_whose_looks_are_cut_off_gives_way_to_the_others(tmp_path: Path) -> None:
    hour, look = 3600.0, 60.0
    room = Room(tmp_path, VANISHING)
    job = room.job()
    job.steps(3)
    busy, end = 0.0, room.clock.now + hour
    while room.clock.now < end:  # a notification each second
        busy += look if room.cut_off(job, seconds=look) else 0.0
        room.wait(1)
    assert busy <= hour / 2
