"""A worker that delivers nothing any more holds up the others for a while, not for ever."""

from __future__ import annotations

from pathlib import Path

from tests.faults.room import START, Room

VANISHING = {"rules": ["VanishingGradient"]}


def test_a_dead_worker_costs_a_minute_three_times(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING)
    job = room.job(workers=2)
    behind = []
    for step in range(40):
        written = START + 10 * step
        room.pass_time(written - room.clock.now)
        previous = step - 1 if step else None
        job.save_at(written, step, previous)
        if step < 3:
            job.save_at(written, step, previous, worker="worker_1")
        room.look(job)
        if room.known(job).last_step != step:
            behind.append(step)
    assert behind  # it might only be slow
    assert [step for step in behind if step >= 20] == []
    room.pass_time(120)
    assert room.known(job).steps == 40


def test_a_step_that_waits_does_not_depend_on_a_message_that_can_be_lost(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 1)
    job = room.job(workers=2)
    job.save_at(START, 0, None)
    room.look(job)
    assert room.known(job).steps == 0
    room.lose_messages()
    room.pass_time(150)
    assert room.known(job).steps == 1
