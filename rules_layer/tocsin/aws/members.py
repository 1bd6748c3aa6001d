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
    """Return a client of SageMaker under a role of another account. Its credentials are fetched at
    the first call and renewed before they expire.
    """
    asked = {"RoleArn": role, "RoleSessionName": "tocsin"}
    session = Session()
    session._credentials = DeferredRefreshableCredentials(
        create_assume_role_refresher(sts, asked), "assume-role"
    )
    return boto3.session.Session(botocore_session=session).client("sagemaker", config=CONFIG)


@dataclass(frozen=True)
class Member:
    """Another account: its jobs, and the prefixes of the capture bucket below which it writes."""

    jobs: SageMakerJobs
    prefixes: Sequence[str]

    def may_write(self, run: str) -> bool:
        key = run.partition("://")[2].partition("/")[2]
        return f"{key}/".startswith(tuple(self.prefixes))


@dataclass(frozen=True)
class AllAccounts:
    """The jobs of the deployment's own account and of the ``members``, by their account's number.

    The same name may be that of a job in each. A run is looked for in the account that may write
    it, then in the deployment's own. What a member's job says of itself counts below the member's
    prefixes only.
    """

    own: SageMakerJobs
    members: Mapping[str, Member]

    def describe(self, name: str, run: str) -> JobDescription | None:
        return next(filter(None, (jobs.describe(name) for jobs in self._of_run(run))), None)

    def find(self, arn: str) -> JobDescription | None:
        return self._of_arn(arn).find(arn)

    def may_write(self, arn: str, run: str) -> bool:
        member = self.members.get(_account(arn))
        return member is None or member.may_write(run)

    def tagged_run(self, job: JobDescription) -> str:
        return self._of_arn(job.arn).tagged_run(job)

    def to_stop(self, name: str, run: str) -> JobToStop | None:
        return next(filter(None, (jobs.to_stop(name) for jobs in self._of_run(run))), None)

    def tags(self, arn: str) -> Mapping[str, str]:
        return self._of_arn(arn).tags(arn)

    def stop(self, arn: str) -> None:
        """Stop the job. Raises NotRunning."""
        self._of_arn(arn).stop(arn)

    def _of_run(self, run: str) -> Iterator[SageMakerJobs]:
        yield from (each.jobs for each in self.members.values() if each.may_write(run))
        yield self.own

    def _of_arn(self, arn: str) -> SageMakerJobs:
        member = self.members.get(_account(arn))
        return self.own if member is None else member.jobs


def all_jobs(member_roles: Sequence[str], client: Client) -> SageMakerJobs | AllAccounts:
    """Return the training jobs of this account, and of those whose roles are given, each with a
    prefix: ``ROLE=PREFIX``, once for each prefix.
    """
    own = SageMakerJobs(client("sagemaker"))
    if not member_roles:
        return own
    sts = client("sts")
    members = {
        _account(role): Member(SageMakerJobs(member_client(role, sts)), prefixes)
        for role, prefixes in prefixes_by_role(member_roles).items()
    }
    return AllAccounts(own, members)


def prefixes_by_role(member_roles: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the prefixes of each role.

    >>> prefixes_by_role(["arn:aws:iam::1:role/T=runs/speech/", "arn:aws:iam::1:role/T=runs/a=b/"])
    {'arn:aws:iam::1:role/T': ['runs/speech/', 'runs/a=b/']}
    """
    found: dict[str, list[str]] = {}
    for role, _, prefix in (each.partition("=") for each in member_roles):
        found.setdefault(role, []).append(prefix)
    return found


def _account(arn: str) -> str:
    """The number of the account in an ARN; empty where there is none."""
    parts = arn.split(":")
    return parts[4] if len(parts) > 4 else ""
