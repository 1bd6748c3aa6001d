"""A job that starts again under its prefix is watched from there on, and nobody is misled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tocsin.tensors import END_MARKER

from tests.faults.room import BAD, CAPTURES, START, Act, Room, SageMaker

VANISHING = {"rules": ["VanishingGradient"]}
AT_ONCE = {
    "rule": "VanishingGradient",
    "for_steps": 1,
    "severity": "critical",
    "actions": ["email"],
}


def test_a_restart_whose_look_failed_is_not_lost(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job()
    job.steps(8)
    room.look(job)
    room.wait(10)
    job.run_id = "run-2"
    keys = [
        job.save_at(START + 100 + step, step, step - 1 if step > 4 else None, gradient=BAD)
        for step in range(4, 8)
    ]
    room.notify_while_busy(job, *keys)
    room.failing("storage", "head", times=1)
    assert "Throttling" in room.tried(job, tick=room.clock.now)
    for _ in range(3):
        room.wait(60)
        room.look(job, tick=room.clock.now)
    # The second start did not resume: it replaces the first, whose steps no longer count.
    assert room.known(job).steps == room.checked(job).steps == 4
    assert room.known(job).rules["VanishingGradient"].first_violation == 4
    assert room.known(job).statuses == {"VanishingGradient": "IssuesFound"}


def test_a_run_of_smdebug_that_starts_again_is_watched(tmp_path: Path) -> None:
    stalled = {"rule": "StalledTrainingRule", "parameters": {"threshold": 600}}
    room = Room(tmp_path, {"rules": ["VanishingGradient", stalled]}, now=START + 100)
    job = room.job()
    for step in range(20):
        job.save(step, previous=None, chained=False)
    room.look(job)
    assert room.known(job).steps == 20
    for step in range(12):
        written = START + 1000 + 20 * step
        key = job.save_at(written, step, None, chained=False, gradient=BAD)
        room.clock.now = written + 6
        room.look(job, key)
    room.look(job, tick=room.clock.now)
    assert room.known(job).steps == 32
    assert room.known(job).statuses == {
        "VanishingGradient": "IssuesFound",
        "StalledTrainingRule": "InProgress",
    }


def test_a_first_delivery_of_smdebugs_that_is_late_is_no_restart(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 100)
    job = room.job(workers=2)
    for step in range(4):
        job.save(step, previous=None, chained=False)
        if step != 1:
            job.save(step, previous=None, chained=False, worker="worker_1")
    room.look(job)
    room.wait(60)
    assert room.known(job).steps == 4
    key = job.save_at(START + 150, 1, None, chained=False, worker="worker_1")
    room.look(job, key)
    job.end_at(START + 160, by_hook=False)
    room.look(job)
    assert (room.known(job).steps, room.known(job).late_files) == (4, 1)


def test_what_began_again_after_a_restart_is_not_called_resolved(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [{**AT_ONCE, "for_steps": 2}]}, now=START + 1000)
    act = Act()
    job = room.job()
    for step in range(8):
        room.look(job, job.save(step, previous=step - 1 if step else None, gradient=BAD))
    room.deliver(act)
    act.pass_time(60)
    assert len(act.subjects) == 1
    job.run_id = "run-2"
    room.look(job, job.save_at(START + 104, 4, None, gradient=BAD))
    assert room.changes()[-1]["PreviousStatus"] == "IssuesFound"
    room.deliver(act)
    act.pass_time(600)
    assert not [subject for subject in act.subjects if "resolved" in subject]


def test_a_rule_that_was_edited_while_it_fires_is_not_called_resolved(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [AT_ONCE]}, now=START + 1000)
    act = Act()
    job = room.job()
    job.save(0, previous=None, gradient=BAD)
    room.look(job)
    job.watch({"rules": [{**AT_ONCE, "for_steps": 2}]})
    job.save(1, previous=0, gradient=BAD)
    room.look(job)
    room.deliver(act)
    act.pass_time(60)
    assert not [subject for subject in act.subjects if "resolved" in subject]
    assert [change for change in room.changes() if change["PreviousStatus"] == "IssuesFound"]


def test_a_rule_that_was_removed_while_it_fires_says_so(tmp_path: Path) -> None:
    room = Room(tmp_path, {"rules": [AT_ONCE, "LossNotDecreasing"]}, now=START + 1000)
    act = Act()
    job = room.job()
    job.save(0, previous=None, gradient=BAD)
    room.look(job)
    job.watch({"rules": ["LossNotDecreasing"]})
    job.save(1, previous=0, gradient=BAD)
    room.look(job)
    room.deliver(act)
    act.pass_time(60)
    assert "removed" in room.changes("VanishingGradient")[-1]["StatusDetails"]
    assert not [subject for subject in act.subjects if "resolved" in subject]


def of_a_job(name: str, threshold: str) -> dict[str, Any]:
    """A rule of a SageMaker job's DebugRuleConfigurations."""
    parameters = {"rule_to_invoke": "VanishingGradient", "threshold": threshold}
    return {"RuleConfigurationName": name, "RuleParameters": parameters}


@pytest.mark.parametrize("chained", [True, False], ids=["hook", "smdebug"])
@pytest.mark.parametrize("first", [0, 3], ids=["from its beginning", "resumed"])
def test_a_job_made_again_under_its_name_brings_its_own_rules(
    tmp_path: Path, chained: bool, first: int
) -> None:
    room = Room(tmp_path, {"rules": ["LossNotDecreasing"]}, now=START + 20_000)
    url = f"{CAPTURES}jobs/j1"
    old = {**SageMaker.job(url), "DebugRuleConfigurations": [of_a_job("old", "1e-30")]}
    sagemaker = SageMaker(j1=old)
    room.with_sagemaker(sagemaker)
    job = room.job("jobs/j1")
    for step in range(5):
        previous = step - 1 if step else None
        room.look(job, job.save_at(room.clock.now, step, previous, chained=chained))
        room.pass_time(10)
    sagemaker.jobs["j1"]["TrainingJobStatus"] = "Completed"
    room.end_job("j1")
    room.look(job, END_MARKER)
    assert room.known(job).statuses == {"old": "NoIssuesFound"}
    room.pass_time(3600)
    new = {**SageMaker.job(url), "DebugRuleConfigurations": [of_a_job("new", "1e-6")]}
    sagemaker.jobs["j1"] = new
    job.run_id = "run-2"
    for step in range(first, first + 5):
        previous = step - 1 if step > first else None
        key = job.save_at(room.clock.now, step, previous, gradient=1e-9, chained=chained)
        room.look(job, key)
        room.pass_time(10)
    assert room.known(job).statuses == {"new": "IssuesFound"}
