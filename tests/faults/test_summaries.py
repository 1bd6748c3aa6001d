"""A run that goes on after its end has few summaries, and keeps its alerts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tocsin.alerts import RunCaps
from tocsin.events import NotifyPolicy, RunSummary

from tests.faults.room import RUN, START, Act, Room, alert

WATCH = {
    "notify": {"summary": ["email"]},
    "rules": [
        "ExplodingTensor",
        {
            "rule": "VanishingGradient",
            "for_steps": 1,
            "severity": "critical",
            "actions": ["email"],
        },
    ],
}


def test_a_run_ends_again_only_when_it_is_quiet(tmp_path: Path) -> None:
    room = Room(tmp_path, WATCH, now=START + 20_000)
    job = room.job(workers=2)

    def saves(step: int, *workers: str, **values: float) -> None:
        for worker in workers:
            previous = step - 1 if step else None
            room.look(job, job.save_at(room.clock.now, step, previous, worker=worker, **values))
        room.pass_time(10)

    for step in range(5):
        saves(step, "worker_0", "worker_1")
    job.end_at(room.clock.now)  # one worker closes its hook; all share the start that it names
    room.look(job, "training_job_end.ts")
    for step in range(5, 65):
        saves(step, "worker_1")
    assert len(room.summaries) == 1
    changes = len(room.changes())
    room.pass_time(3600)
    assert len(room.summaries) == 2
    assert room.summaries[-1]["Steps"]["last"] == 64
    assert len(room.changes()) == changes + 2  # the statuses at the end, once
    assert room.known(job).statuses == room.checked(job).statuses
    saves(65, "worker_1")
    room.wait(2)
    job.end_at(room.clock.now)  # a newer marker
    room.look(job, "training_job_end.ts")
    assert len(room.summaries) == 3


def summary(number: int, *actions: str) -> RunSummary:
    notify = NotifyPolicy(group_interval=300.0)
    return RunSummary("j1", RUN, f"end-{number}", sequence=number, summary=actions, notify=notify)


def test_summaries_keep_the_group_interval() -> None:
    act = Act()
    for number in range(30):
        act.receive(summary(number, "email"))
        act.pass_time(20)
    act.pass_time(600)
    assert len(act.subjects) == 3
    assert act.group().summary_sent == "end-29"


@pytest.mark.parametrize("action", ["email", "sms"])
def test_summaries_use_up_nothing_that_alerts_need(action: str) -> None:
    act = Act(caps=RunCaps(texts=3, emails=3))
    for number in range(6):
        act.receive(summary(number, action))
        act.pass_time(400)
    assert len(act.published) == 3
    act.receive(alert("A", Actions=[action], Severity="critical", Sequence=99))
    assert len(act.published) == 4
