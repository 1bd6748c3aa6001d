"""What actions need of the outside world, as plain callables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from tocsin.events import ActionTaken, StatusChange


@dataclass(frozen=True)
class Job:
    """A SageMaker training job, as far as stopping it is concerned.

    ``outputs`` are the S3 paths under which it may write its captured tensors.
    """

    arn: str
    status: str
    outputs: tuple[str, ...] = ()


class NotRunning(Exception):
    """The job cannot be stopped because it is not running (any more)."""


@dataclass(frozen=True)
class Message:
    """What is published to the topic: a text per protocol, and what subscriptions filter on."""

    texts: Mapping[str, str]
    attributes: Mapping[str, str]
    subject: str | None = None


@dataclass(frozen=True)
class Links:
    """Where people find more; empty where there is nothing."""

    dashboard: str = ""


class UnknownEndpoint(Exception):
    """The deployment names no such webhook, or it cannot be used: the text says why."""


@dataclass(frozen=True)
class Ports:
    """The effects that actions have, one callable each."""

    describe_job: Callable[[str], Job | None]
    """The job of exactly this name; None when there is none."""
    job_tags: Callable[[str], Mapping[str, str]]
    """The tags of the job with this ARN."""
    stop_job: Callable[[str], None]
    """Asks SageMaker to stop the job of this name. NotRunning."""
    may_stop: Callable[[str], str | None]
    """Whether one more run (URL) may be stopped: None, or why the stop guard refuses."""
    write: Callable[[str, str, bytes], None]
    """Writes data under a run (URL) and key; the key stays inside the run."""
    publish: Callable[[Message], None]
    subscribe: Callable[[str, str], str | None]
    """Sees to it that an endpoint gets what is for it alone: protocol, endpoint. None when it
    does, else why it does not yet."""
    refuses: Callable[[str, str], str | None]
    """Why a recipient cannot be used: ``email`` or ``sms``, recipient. None when it can."""
    may_text: Callable[[int], str | None]
    """Whether so many more SMS may be sent this month: None, or why not."""
    post: Callable[[str, Mapping[str, Any], str], None]
    """Posts an event to an endpoint: its name, the event, the id of this delivery.
    UnknownEndpoint; Rejected when the endpoint will never take it."""
    put_metric: Callable[[str, float, Mapping[str, str]], None]
    """Adds one value to a metric: name, value, dimensions."""
    put_event: Callable[[ActionTaken], None]
    """Puts an event on the bus."""
    recent: Callable[[StatusChange], Sequence[tuple[int, float]]]
    """Step and ``measure`` of the alert's tensor at its last saves, oldest first; nothing where
    that cannot be told."""
    now: Callable[[], datetime]
    broadcast: Mapping[str, int] = field(default_factory=dict)
    """To how many the deployment itself sends, by action: ``{"email": 2, "sms": 1}``."""
    links: Links = Links()

    def rehearsal(self) -> Ports:
        """The same ports for a dry run: they look, and change nothing."""

        def nothing(*_: object) -> None:
            return None

        return replace(
            self,
            stop_job=nothing,
            may_stop=nothing,
            write=nothing,
            publish=nothing,
            subscribe=nothing,
            may_text=nothing,
            post=nothing,
            put_metric=nothing,
        )
