"""Training jobs in other accounts, reached by a role that each of them grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.credentials import DeferredRefreshableCredentials, create_assume_role_refresher
from botocore.session import Session

from tocsin.aws.clients import CONFIG, Client
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.evaluation import JobDescription

if TYPE_CHECKING:
    from tocsin.actions import JobToStop


def member_client(role: str, sts: Any) -> Any:
    """A client of SageMaker under a role of another account. Its credentials are fetched at the
    first call and renewed before they expire.
    """
    asked = {"RoleArn": role, "RoleSessionName": "tocsin"}
    session = Session()
    session._credentials = DeferredRefreshableCredentials(
        create_assume_role_refresher(sts, asked), "assume-role"
    )
    return boto3.session.Session(botocore_session=session).client("sagemaker", config=CONFIG)


@dataclass(frozen=True)
class AllAccounts:
    """The jobs of several accounts, the deployment's own first: a name counts where it is found
    first.
    """

    accounts: Sequence[SageMakerJobs]

    def describe(self, name: str) -> JobDescription | None:
        return next(filter(None, (jobs.describe(name) for jobs in self.accounts)), None)

    def tagged_run(self, job: JobDescription) -> str:
        name = job.arn.rpartition("/")[2]
        for jobs in self.accounts:
            found = jobs.describe(name)
            if found is not None and found.arn == job.arn:
                return jobs.tagged_run(job)
        return ""

    def to_stop(self, name: str) -> JobToStop | None:
        return next((job for job, _ in self._found(name)), None)

    def tags(self, arn: str) -> Mapping[str, str]:
        name = arn.rpartition("/")[2]
        return next((jobs.tags(arn) for job, jobs in self._found(name) if job.arn == arn), {})

    def stop(self, name: str) -> None:
        """Stops the job where it is found first. Raises NotRunning."""
        jobs = next((jobs for _, jobs in self._found(name)), self.accounts[0])
        jobs.stop(name)

    def _found(self, name: str) -> Iterator[tuple[JobToStop, SageMakerJobs]]:
        for jobs in self.accounts:
            if (job := jobs.to_stop(name)) is not None:
                yield job, jobs


def all_jobs(member_roles: Sequence[str], client: Client) -> SageMakerJobs | AllAccounts:
    """The training jobs of this account, and of those whose roles are given."""
    own = SageMakerJobs(client("sagemaker"))
    if not member_roles:
        return own
    sts = client("sts")
    members = (SageMakerJobs(member_client(role, sts)) for role in member_roles)
    return AllAccounts((own, *members))
