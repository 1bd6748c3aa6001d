"""The dependencies of actions: lookups, which change nothing, and effects, which do.

A dry run gets ``NO_EFFECTS``. No effect has a default, so an effect that a dry run does not know is
a type error there, and never a real stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from tocsin.actions.next_job import Relaunch
from tocsin.events import METRIC_NAMESPACE, StatusChange


@dataclass(frozen=True)
class JobToStop:
    """A SageMaker training job, as far as stopping it is concerned.

    outputs: the S3 paths under which it may write its captured tensors.
    definition: the answer of DescribeTrainingJob.
    """

    arn: str
    status: str
    outputs: tuple[str, ...] = ()
    definition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StopHeld:
    """The stop guard holds a stop back: why, and until when (seconds since the epoch)."""

    why: str
    until: float


class CapReached(Exception):
    """A run or its owner has used up its share; the text names the limit."""


class NameTaken(Exception):
    """There is a job of this name."""


class Refused(Exception):
    """SageMaker will never create this job: the text says why."""


class NotRunning(Exception):
    """The job cannot be stopped because it is not running (any more)."""


@dataclass(frozen=True)
class TopicMessage:
    """A message to the topic: a text per protocol, and what subscriptions filter on.

    phone: the one number to send the text ``sms`` to, in place of the topic.
    """

    texts: Mapping[str, str]
    attributes: Mapping[str, str]
    subject: str | None = None
    phone: str = ""


@dataclass(frozen=True)
class Links:
    """Links to more information; empty where there is none."""

    dashboard: str = ""


LINK_HOURS = 12
"""The longest validity of a link to a report; the session of the role that signed it may end
before."""


class ReportLinks(msgspec.Struct, frozen=True, rename="pascal"):
    """Links to a run's report; empty where there is none.

    page: opens without signing in, for some hours.
    console: for who may sign in to the account.
    """

    page: str = ""
    console: str = ""


class UnknownEndpoint(Exception):
    """The webhook is unknown or unusable; the text has the reason."""


@dataclass(frozen=True)
class Lookups:
    """Questions that actions may ask. Nothing changes by them."""

    describe_job: Callable[[str, str], JobToStop | None]
    """The job of exactly this name, in an account that may write the run (URL); None when there is
    none."""
    job_tags: Callable[[str], Mapping[str, str]]
    """The tags of the job with this ARN."""
    refuses: Callable[[str, str], str | None]
    """Why a recipient cannot be used: ``email`` or ``sms``, recipient. None when it can."""
    recent: Callable[[StatusChange], Sequence[tuple[int, float]]]
    """Step and ``measure`` of the alert's tensor at its last saves, oldest first; nothing where
    they cannot be read."""
    now: Callable[[], datetime]
    broadcast: Mapping[str, int] = field(default_factory=dict)
    """The number of recipients that the deployment itself subscribes, by action: ``{"email": 2,
    "sms": 1}``.
    """
    reaches: Callable[[str], bool] = lambda kind: True
    """True if anybody gets what is published to the topic as ``email`` or ``sms``."""
    links: Links = Links()
    report: Callable[[str], ReportLinks] = lambda run: ReportLinks()
    """Links to a run's (URL) report, which may not be written yet."""
    machine: Callable[[str], Sequence[StatusChange] | None] = lambda run: None
    """The rules that fire about the machines of a training's run (URL); None where they are not
    watched, or it is not known in time."""
    relaunch_roles: frozenset[str] = frozenset()
    """The roles (ARNs) of the jobs that the deployment may start again; empty: it starts none."""
    namespace: str = METRIC_NAMESPACE
    """The deployment's, of CloudWatch's metrics."""


@dataclass(frozen=True)
class Effects:
    """Changes that actions make in the outside world.

    ``reserve`` says why not; ``publish``, ``post`` and ``put_metric`` raise CapReached.
    """

    reserve_stop: Callable[[str, str], StopHeld | None]
    """Counts one more run to stop: its URL, and by ``sagemaker`` or a request to its ``hook``.
    None, or why it is held back."""
    stop_job: Callable[[str], None]
    """Asks SageMaker to stop the job with this ARN. Raises NotRunning."""
    relaunch: Callable[[Relaunch], None]
    """Has a job started again when it has ended. The same plan again changes nothing."""
    write: Callable[[str, str, bytes], None]
    """Writes data under a run (URL) and key; the key stays inside the run."""
    subscribe: Callable[[str, str, str], str | None]
    """Subscribes an endpoint to what is for it alone: the run (URL) that asks for it, protocol,
    endpoint. None when it gets that, else why it does not yet."""
    reserve: Callable[[str, str, int], str | None]
    """Counts so many more of a kind of what all runs share (``owners.SHARED``): kind, run (URL),
    count. None, or why they must not be used."""
    release: Callable[[str, str, int], None]
    """Counts so many less, which were reserved and not used."""
    publish: Callable[[TopicMessage], None]
    post: Callable[[str, Mapping[str, Any], str], None]
    """Posts an event to an endpoint: its name, the event, the id of this delivery. Raises
    UnknownEndpoint, and Rejected when the endpoint will never take it."""
    put_metric: Callable[[str, float, Mapping[str, str]], None]
    """Adds one value to a metric: name, value, dimensions."""


def _nothing(*_: object) -> None:
    return None


NO_EFFECTS: Final = Effects(
    reserve_stop=_nothing,
    stop_job=_nothing,
    relaunch=_nothing,
    write=_nothing,
    subscribe=_nothing,
    reserve=_nothing,
    release=_nothing,
    publish=_nothing,
    post=_nothing,
    put_metric=_nothing,
)
