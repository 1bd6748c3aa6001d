"""A training that makes no progress is noticed, once for each look at the clock."""

from __future__ import annotations

from pathlib import Path

from tests.faults.room import START, Room

STALLED = {"rule": "StalledTrainingRule", "parameters": {"threshold": 600}}


def test_a_job_that_hangs_before_its_first_save_is_noticed(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [STALLED]})
    job = room.job()
    room.look(job)
    room.pass_time(2 * 3600)
    assert room.known(job).statuses == {"StalledTrainingRule": "IssuesFound"}


def test_a_tick_that_is_delivered_again_counts_once(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [{**STALLED, "for_steps": 3}]}, now=START + 20)
    job = room.job()
    job.steps(10)
    room.look(job)
    room.wait(3600)
    tick = room.clock.now
    for _ in range(3):
        room.look(job, tick=tick)
    assert room.known(job).statuses == {"StalledTrainingRule": "InProgress"}


def test_a_stall_that_goes_on_counts_at_each_tick(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [{**STALLED, "for_steps": 3}]}, now=START + 20)
    job = room.job()
    job.steps(10)
    room.look(job)
    room.wait(3600)
    for _ in range(3):
        room.look(job, tick=room.clock.now)
        room.wait(60)
    assert room.known(job).statuses == {"StalledTrainingRule": "IssuesFound"}
