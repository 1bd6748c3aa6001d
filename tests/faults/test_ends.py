"""How a run ends: however large it is, by nobody else's end, and not by clocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from tocsin.aws.members import AllAccounts, Member
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.evaluation import document, state_of
from tocsin.tensors import END_MARKER, Object

from tests.faults.room import CAPTURES, START, CutOff, Deployment, Room, SageMaker, Training

VANISHING = {"rules": ["VanishingGradient"], "notify": {"summary": ["email"]}}


class SlowListing:
    """A run whose keys take ``PAGE_SECONDS`` for every ``PAGE``. Who is still listing when the
    invocation ends is cut off.
    """

    PAGE, PAGE_SECONDS = 20, 6.0

    def __init__(self, room: Room, inner: Any) -> None:
        self._room = room
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        for number, found in enumerate(self._inner.list(prefix, after)):
            if number % self.PAGE == 0:
                self._room.wait(self.PAGE_SECONDS)
                if self._room.clock.now > self._room.ends:
                    raise CutOff
            yield found


@pytest.mark.parametrize("late", [0, 3])
def test_a_large_run_ends_over_several_invocations(tmp_path: Path, late: int) -> None:
    room = Room(tmp_path, VANISHING, now=START + 1000)
    job = room.job(workers=10)
    for step in range(40):
        for worker in range(10):
            job.write_index(step, step - 1 if step else None, worker=f"worker_{worker}")
    room.look(job)
    for step in range(late):
        job.write_index(step, None, worker="worker_of_nobody")
    job.end_at(START + 40)
    room.with_storage(lambda inner: SlowListing(room, inner))
    for _ in range(10):
        with suppress(CutOff):
            room.look(job)
        room.wait(62)
    room.ends = math.inf
    assert (room.known(job).steps, room.known(job).ended) == (40, "marker")
    assert room.known(job).late_files == late
    if not late:  # who looks only now finds nothing late
        assert room.checked(job).late_files == 0


def test_a_jobs_end_ends_only_runs_of_its_own(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    own, other = room.job("team-a/train"), room.job("team-b/train")
    room.with_sagemaker(SageMaker(train=SageMaker.job(f"{CAPTURES}team-a/train", "InProgress")))
    for job in (own, other):
        job.steps(5)
        room.look(job)
    room.with_sagemaker(SageMaker(train=SageMaker.job(f"{CAPTURES}team-a/train", "Completed")))
    room.end_job("train")
    for job in (own, other):
        room.look(job)
    assert (room.known(own).ended, room.known(other).ended) == ("marker", None)


def test_a_run_whose_job_failed_is_failed_until_it_goes_on(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    job = room.job("train")
    job.steps(5)
    room.with_sagemaker(SageMaker(train=SageMaker.job(job.url, "Failed")))
    room.look(job)
    room.end_job("train")
    room.look(job)
    assert state(room, job) == "failed"
    room.wait(600)
    job.save_at(room.clock.now, 5, 4)
    room.look(job)
    assert state(room, job) == "running"


def state(room: Room, job: Training) -> str:
    return state_of(document(room.world.checkpoints.load(job.url).checkpoint))


@pytest.mark.usefixtures("aws")
def test_folders_called_like_a_job_do_not_keep_its_run_from_ending(tmp_path: Path) -> None:
    Deployment(watched=False)
    room = Room(tmp_path, VANISHING, now=START + 10)
    room.with_dynamodb(boto3.client("dynamodb"))
    room.name_runs_after("train", [f"{CAPTURES}other/{number}/train" for number in range(100)])
    url = f"{CAPTURES}team/train"
    room.with_sagemaker(SageMaker(train=SageMaker.job(url)))
    job = room.job("team/train")
    job.steps(3)
    room.look(job)
    room.with_sagemaker(SageMaker(train=SageMaker.job(url, "Completed")))
    room.end_job("train")
    room.look(job)
    assert room.known(job).ended == "marker"


def test_a_workers_late_upload_does_not_undo_the_end(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    job = room.job(workers=2)
    for step in range(3):
        for worker in ("worker_0", "worker_1"):
            job.save_at(START + step, step, step - 1 if step else None, worker=worker)
    job.save_at(START + 3, 3, 2)
    job.end_at(START + 4)
    room.look(job)
    room.wait(60)
    for step in (3, 4):
        room.look(job, job.save_at(START + 66, step, step - 1, worker="worker_1"))
    room.pass_time(3600)
    assert room.known(job).ended == "marker"
    assert room.known(job).statuses == {"VanishingGradient": "NoIssuesFound"}
    assert room.summaries[-1]["Ending"] == "marker"


def test_the_marker_of_one_start_does_not_end_the_next(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    job = room.job(workers=2)
    workers = ("worker_0", "worker_1")
    for step in range(5):
        for worker in workers:
            job.save_at(START + step, step, step - 1 if step else None, worker=worker)
    job.end_at(START + 6)
    room.look(job)
    assert len(room.summaries) == 1
    job.run_id = "run-2"
    for step in range(8):  # worker_1 is a second slower
        room.clock.now = START + 12 + 6 * step
        for worker in workers:
            previous = step - 1 if step else None
            room.look(job, job.save_at(room.clock.now, step, previous, worker=worker))
            room.wait(1)
    known = room.known(job)
    assert (known.ended, known.missing_workers) == (None, 0)
    assert len(room.summaries) == 1


def test_a_job_that_ends_without_a_step_gives_its_summary(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING)
    job = room.job()
    room.look(job)
    room.wait(3600)
    job.end_at(room.clock.now, by_hook=False)
    room.look(job)
    assert room.known(job).ended == "marker"
    (summary,) = room.summaries
    assert summary["RuleEvaluationStatus"] == "NotApplicable"
    (rule,) = room.known(job).rules.values()
    assert (rule.status, bool(rule.details)) == ("NotApplicable", True)


def test_sagemakers_end_of_one_start_does_not_end_the_next(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    room.with_sagemaker(SageMaker(train=SageMaker.job(f"{CAPTURES}team/train", "Completed")))
    job = room.job("team/train")
    job.steps(3)
    room.look(job)
    room.end_job("train")
    job.touch(END_MARKER, START + 10)
    job.run_id = "run-2"
    room.look(job, job.save_at(START + 20, 0, None))
    assert room.known(job).ended is None


MEMBER = "777788889999"


def two_accounts(own: SageMaker, member: SageMaker) -> AllAccounts:
    """The deployment's account, and one that may write below ``speech``."""
    members = {MEMBER: Member(SageMakerJobs(member), ("speech/",))}
    return AllAccounts(SageMakerJobs(own), members)


@pytest.mark.parametrize("path", ["team/train", "speech/train", "team/train/debug-output"])
def test_the_end_of_a_job_in_another_account_does_not_end_one_of_its_name(
    tmp_path: Path, path: str
) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    own = SageMaker(train=SageMaker.job(f"{CAPTURES}team/train"))
    theirs = SageMaker.job(f"{CAPTURES}{path}", "Completed", account=MEMBER)
    room.with_jobs(two_accounts(own, SageMaker(train=theirs)))
    job = room.job("team/train")
    job.steps(5)
    room.look(job)
    room.end_job("train", theirs["TrainingJobArn"])
    room.look(job)
    assert room.known(job).ended is None
    own.jobs["train"]["TrainingJobStatus"] = "Completed"
    room.end_job("train")
    room.look(job)
    assert room.known(job).ended == "marker"


def test_jobs_of_one_name_end_each_in_its_account(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    own = SageMaker(train=SageMaker.job(f"{CAPTURES}team/train"))
    theirs = SageMaker.job(f"{CAPTURES}speech/train", account=MEMBER)
    member = SageMaker(train=theirs)
    room.with_jobs(two_accounts(own, member))
    jobs = [room.job("team/train"), room.job("speech/train")]
    for job in jobs:
        job.steps(5)
        room.look(job)
    member.jobs["train"]["TrainingJobStatus"] = "Completed"
    room.end_job("train", theirs["TrainingJobArn"])
    for job in jobs:
        room.look(job)
    assert [room.known(job).ended for job in jobs] == [None, "marker"]


def test_a_late_event_of_a_deleted_job_does_not_end_its_namesake(tmp_path: Path) -> None:
    room = Room(tmp_path, VANISHING, now=START + 10)
    room.with_sagemaker(SageMaker(train=SageMaker.job(f"{CAPTURES}team/train")))
    job = room.job("team/train")
    job.steps(5)
    room.look(job)
    room.end_job("train")  # the job of this name and ARN that there was before
    room.look(job)
    assert room.known(job).ended is None
