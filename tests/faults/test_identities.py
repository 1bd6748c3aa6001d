"""What is the same alert, and what is a new one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tocsin.actions import JobToStop
from tocsin.evaluation import replayed
from tocsin.events import RunSummary

from tests.faults.room import RUN, START, Act, Room, Training, alert

STOPS = {
    "rules": [
        {
            "rule": "VanishingGradient",
            "for_steps": 1,
            "severity": "critical",
            "actions": ["stop", "metric", "email"],
        }
    ]
}


def replay(room: Room, job: Training) -> None:
    """``tocsin replay --act``, and the look that follows."""
    checkpoints = room.world.checkpoints
    stored = checkpoints.load(job.url)
    again = replayed(stored.checkpoint, "again", room.clock.now)
    checkpoints.save(again, stored.version)
    room.look(job)


def test_a_replay_acts_as_for_a_new_run(tmp_path: Path) -> None:
    room, act = Room(tmp_path, STOPS), Act()
    job = room.job()
    job.save(0, previous=None)
    job.save(1, previous=0, gradient=1e-12)
    act.now = room.clock.now
    room.look(job)
    room.deliver(act)
    assert (len(act.stopped), len(act.metrics), len(act.subjects)) == (1, 1, 1)
    room.wait(3600)
    act.now = room.clock.now
    act.job = replace(act.job, status="InProgress") if act.job else None
    replay(room, job)
    room.deliver(act)
    act.pass_time(600)
    assert (len(act.stopped), len(act.metrics)) == (2, 2)
    assert len(act.subjects) >= 2
    assert act.subjects[-1].startswith("Tocsin critical: VanishingGradient in j1 at step 1")


def test_a_replay_withdraws_what_no_longer_fires(tmp_path: Path) -> None:
    room, act = Room(tmp_path, STOPS), Act()
    job = room.job()
    job.save(0, previous=None)
    job.save(1, previous=0, gradient=1e-12)
    act.now = room.clock.now
    room.look(job)
    room.deliver(act)
    job.save(1, previous=0)
    room.wait(3600)
    act.now = room.clock.now
    replay(room, job)
    room.deliver(act)
    act.pass_time(600)
    assert len(act.stopped) == 1
    assert act.group().firing == {}
    assert "Withdrawn" in act.texts[-1]


def test_smdebugs_job_that_starts_again_and_fails_again_is_stopped_again(tmp_path: Path) -> None:
    room, act = Room(tmp_path, STOPS), Act()
    job = room.job()
    room.clock.now = act.now = START + 20_000
    for start in (1, 2):
        act.job = JobToStop("arn:aws:sagemaker:::training-job/j1", "InProgress", (RUN,))
        for step in range(6):
            gradient = 1e-12 if step == 4 else 1e-2
            saved = job.save_at(room.clock.now, step, None, chained=False, gradient=gradient)
            room.look(job, saved)
            room.pass_time(10)
            act.now = room.clock.now
            room.deliver(act)
            act.pass_time(10)
        room.pass_time(600)
        act.now = room.clock.now
        assert (len(act.stopped), len(act.metrics)) == (start, start)


def _untagged() -> JobToStop:
    return JobToStop("arn:aws:sagemaker:us-east-1:1:training-job/j1", "InProgress", ())


def test_a_refused_stop_is_done_when_the_job_leads_to_the_run() -> None:
    act = Act(job=_untagged())
    act.receive(alert("ExplodingTensor", Actions=["stop", "email"], Severity="critical"))
    assert (act.stopped, "add-tags" in act.texts[0]) == ([], True)
    act.pass_time(3600)
    assert act.stopped == []
    act.job = replace(_untagged(), outputs=(RUN,))
    act.pass_time(360)
    assert act.stopped == ["j1"]
    assert [event.outcome for event in act.events if event.action == "stop"][-1] == "done"
    act.pass_time(3600)
    assert act.stopped == ["j1"]


def test_a_refused_stop_is_not_tried_after_the_end_of_the_run_or_of_the_job() -> None:
    act = Act(job=_untagged())
    act.receive(alert("A", Actions=["stop"], Severity="critical", Sequence=1))
    act.receive(RunSummary("j1", RUN, "end", sequence=1))
    act.pass_time(3600)
    assert act.due[RUN] is None
    ended = Act(job=replace(_untagged(), status="Completed"))
    ended.receive(alert("A", Actions=["stop"], Severity="critical"))
    assert [event.outcome for event in ended.events] == ["refused"]
    assert ended.due[RUN] is None
