"""Jobs of several accounts: the account that may write a run is the one that is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tocsin.actions import JobToStop
from tocsin.aws.members import AllAccounts, Member, prefixes_by_role
from tocsin.evaluation import JobDescription

RUNS = "s3://captures/runs"


@dataclass
class Account:
    """The jobs of an account, by name: the run that their tag names."""

    number: str
    jobs: Mapping[str, str]
    stopped: list[str] = field(default_factory=list)

    def arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:r:{self.number}:training-job/{name}"

    def describe(self, name: str) -> JobDescription | None:
        return JobDescription(arn=self.arn(name)) if name in self.jobs else None

    def find(self, arn: str) -> JobDescription | None:
        return self.describe(arn.rpartition("/")[2])

    def tagged_run(self, job: JobDescription) -> str:
        return self.jobs[job.arn.rpartition("/")[2]]

    def to_stop(self, name: str) -> JobToStop | None:
        return JobToStop(self.arn(name), "InProgress") if name in self.jobs else None

    def tags(self, arn: str) -> Mapping[str, str]:
        return {"tocsin:run": self.jobs[arn.rpartition("/")[2]]}

    def stop(self, arn: str) -> None:
        self.stopped.append(arn.rpartition("/")[2])


@pytest.fixture
def accounts() -> list[Any]:
    own = Account("1", {"a": "run-a", "both": "own"})
    return [own, Account("2", {"a": "trap", "b": "run-b", "both": "theirs"}), Account("3", {})]


@pytest.fixture
def everywhere(accounts: list[Any]) -> AllAccounts:
    own, second, third = accounts
    prefixes = ("runs/speech/", "runs/audio/")
    return AllAccounts(own, {"2": Member(second, prefixes), "3": Member(third, ("runs/3/",))})


@pytest.mark.parametrize(
    ("name", "run", "number", "tagged"),
    [
        ("a", "vision/a", "1", "run-a"),
        ("b", "speech/b", "2", "run-b"),
        ("b", "audio/b/debug-output", "2", "run-b"),
        ("both", "speech/both", "2", "theirs"),
        ("both", "vision/both", "1", "own"),
        ("both", "3/both", "1", "own"),  # the deployment's own account may write anywhere
        ("both", "speechless/both", "1", "own"),
    ],
)
def test_a_job_is_found_and_stopped_where_its_run_is_written(
    accounts: list[Any], everywhere: AllAccounts, name: str, run: str, number: str, tagged: str
) -> None:
    url = f"{RUNS}/{run}"
    job, described = everywhere.to_stop(name, url), everywhere.describe(name, url)
    assert job is not None
    assert described is not None
    assert job.arn == described.arn
    assert job.arn.split(":")[4] == number
    assert everywhere.find(job.arn) == described
    assert everywhere.may_write(job.arn, url)
    assert everywhere.tags(job.arn) == {"tocsin:run": tagged}
    assert everywhere.tagged_run(described) == tagged
    everywhere.stop(job.arn)
    assert {each.number: each.stopped for each in accounts if each.stopped} == {number: [name]}


@pytest.mark.parametrize("run", ["vision/b", "b", "speech-2/b", "3/b"])
def test_a_members_job_has_no_run_elsewhere(everywhere: AllAccounts, run: str) -> None:
    url = f"{RUNS}/{run}"
    assert everywhere.to_stop("b", url) is None
    assert everywhere.describe("b", url) is None
    assert not everywhere.may_write("arn:aws:sagemaker:r:2:training-job/b", url)


def test_a_job_that_is_nowhere(everywhere: AllAccounts) -> None:
    assert everywhere.to_stop("c", f"{RUNS}/speech/c") is None
    assert everywhere.describe("c", f"{RUNS}/speech/c") is None
    assert everywhere.find("arn:aws:sagemaker:r:2:training-job/c") is None


def test_a_role_has_the_prefixes_that_are_given_with_it() -> None:
    one, other = "arn:aws:iam::2:role/T", "arn:aws:iam::3:role/T"
    roles = [f"{one}=runs/speech/", f"{other}=runs/3/", f"{one}=runs/team=a/"]
    expected = {one: ["runs/speech/", "runs/team=a/"], other: ["runs/3/"]}
    assert prefixes_by_role(roles) == expected
