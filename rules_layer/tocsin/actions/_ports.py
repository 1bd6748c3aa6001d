"""What actions need of the outside world, as plain callables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any


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
class Ports:
    """The effects that actions have, one callable each."""

    describe_job: Callable[[str], Job | None]
    """The job of exactly this name; None when there is none."""
    job_tags: Callable[[str], Mapping[str, str]]
    """The tags of the job with this ARN."""
    stop_job: Callable[[str], None]
    """Asks SageMaker to stop the job of this name. NotRunning."""
    write: Callable[[str, str, bytes], None]
    """Writes data under a run (URL) and key; the key stays inside the run."""
    publish: Callable[[Message], None]
    put_metric: Callable[[str, float, Mapping[str, str]], None]
    """Adds one value to a metric: name, value, dimensions."""
    put_event: Callable[[str, Mapping[str, Any]], None]
    """Puts an event on the bus: detail type, detail."""
    now: Callable[[], datetime]
    subscribed: frozenset[str] = frozenset()
    """The actions (``email``, ``sms``) to which the deployment itself subscribes somebody."""

    def rehearsal(self) -> Ports:
        """The same ports for a dry run: they look, and change nothing."""

        def nothing(*_: object) -> None:
            return None

        return replace(self, stop_job=nothing, write=nothing, publish=nothing, put_metric=nothing)
