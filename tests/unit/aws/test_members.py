"""Jobs of several accounts: where a name is found first counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tocsin.actions import JobToStop
from tocsin.aws.members import AllAccounts
from tocsin.evaluation import JobDescription


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

    def tagged_run(self, job: JobDescription) -> str:
        return self.jobs[job.arn.rpartition("/")[2]]

    def to_stop(self, name: str) -> JobToStop | None:
        return JobToStop(self.arn(name), "InProgress") if name in self.jobs else None

    def tags(self, arn: str) -> Mapping[str, str]:
        return {"tocsin:run": self.jobs[arn.rpartition("/")[2]]}

    def stop(self, name: str) -> None:
        self.stopped.append(name)


@pytest.fixture
def accounts() -> list[Any]:
    own = Account("1", {"a": "run-a", "both": "own"})
    return [own, Account("2", {"b": "run-b", "both": "theirs"}), Account("3", {})]


@pytest.mark.parametrize(
    ("name", "number", "run"), [("a", "1", "run-a"), ("b", "2", "run-b"), ("both", "1", "own")]
)
def test_a_job_is_found_and_stopped_where_it_is(
    accounts: list[Any], name: str, number: str, run: str
) -> None:
    everywhere = AllAccounts(accounts)
    job, described = everywhere.to_stop(name), everywhere.describe(name)
    assert job is not None
    assert described is not None
    assert job.arn == described.arn
    assert job.arn.split(":")[4] == number
    assert everywhere.tags(job.arn) == {"tocsin:run": run}
    assert everywhere.tagged_run(described) == run
    everywhere.stop(name)
    assert {each.number: each.stopped for each in accounts if each.stopped} == {number: [name]}


def test_a_job_that_is_nowhere(accounts: list[Any]) -> None:
    everywhere = AllAccounts(accounts)
    assert everywhere.to_stop("c") is None
    assert everywhere.describe("c") is None
    assert everywhere.tagged_run(JobDescription(arn="arn:aws:sagemaker:r:9:training-job/c")) == ""
