"""An older run that is copied over a live one, or goes on beside it, does not silence it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.room import BAD, START, Room, Training

VANISHING = {"rules": [{"rule": "VanishingGradient", "for_steps": 1}]}
DAY = 86_400.0


def _write(
    room: Room,
    job: Training,
    start: str,
    steps: range,
    began: float,
    mean: float = 1e-2,
    *,
    lost: bool = False,
) -> None:
    """Saves of a start of the job, each with its notification unless those are ``lost``."""
    job.run_id = start
    for step in steps:
        previous = step - 1 if step else None
        key = job.write_index(step, previous, started=began, abs_mean=mean)
        job.touch(key, room.clock.now)
        if not lost:
            room.look(job, key)
        room.pass_time(1)


@pytest.mark.parametrize("copied", [5, 20, 30])
@pytest.mark.parametrize("notified", [True, False])
def test_an_older_run_that_is_copied_over_a_live_one_is_left_out(
    tmp_path: Path, copied: int, notified: bool
) -> None:
    room = Room(tmp_path, VANISHING, now=START + 2 * DAY)
    job, began = room.job(), room.clock.now
    _write(room, job, "live", range(20), began)
    _write(room, job, "old", range(copied), began - DAY, BAD, lost=not notified)
    job.end_at(room.clock.now)
    room.pass_time(600)
    assert "two starts of the job" in room.known(job).rules["VanishingGradient"].details
    _write(room, job, "live", range(20, 40), began)
    assert room.known(job).statuses == {"VanishingGradient": "InProgress"}
    _write(room, job, "live", range(40, 42), began, BAD)
    room.pass_time(900)
    assert room.known(job).last_step == room.checked(job).last_step == 41
    assert room.known(job).rules["VanishingGradient"].first_violation == 40
    assert room.known(job).statuses == room.checked(job).statuses
    assert room.known(job).ended is None


def test_an_older_start_that_goes_on_beside_a_later_one_is_named(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 2 * DAY)
    job, began = room.job(), room.clock.now
    _write(room, job, "old", range(10), began)
    _write(room, job, "new", range(5), began + 600)
    assert "job was restarted" in room.known(job).rules["VanishingGradient"].details
    _write(room, job, "old", range(10, 12), began, BAD)
    details = room.known(job).rules["VanishingGradient"].details
    assert "two starts of the job write into this run" in details
    _write(room, job, "new", range(5, 12), began + 600)
    assert room.known(job).statuses == room.checked(job).statuses
    assert room.known(job).statuses == {"VanishingGradient": "InProgress"}
    assert room.known(job).last_step == 11
