"""An alert to act on, and a world that remembers what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tocsin.actions import Alert, Job, Message, NotRunning, Ports

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

DETAIL: Mapping[str, Any] = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1/debug-output",
    "RuleConfigurationName": "VanishingGradient",
    "Rule": "VanishingGradient",
    "RuleEvaluationStatus": "IssuesFound",
    "PreviousStatus": "InProgress",
    "StatusDetails": "mean |gradient| 3.1e-09 of gradient/fc1 is below threshold 1e-07",
    "Severity": "warning",
    "Step": 120,
    "Mode": "TRAIN",
    "ModeStep": 120,
    "Worker": "worker_0",
    "Tensor": "gradient/fc1",
    "Reason": "below_threshold",
    "Evidence": {"abs_mean": 3.1e-9, "threshold": 1e-7},
    "Actions": ["email"],
    "EvaluatedAt": "2026-01-02T03:04:05Z",
    "DedupId": "d1",
    "RunId": "r1",
}


@dataclass
class World:
    """What the ports reach: one job perhaps, and a list of everything that happened, in order."""

    job: Job | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    status_when_stopped: str | None = None
    broken: Mapping[str, Exception] = field(default_factory=dict)
    did: list[tuple[str, Any]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    subscribed: frozenset[str] = frozenset({"email", "sms"})

    @property
    def ports(self) -> Ports:
        return Ports(
            describe_job=self._describe,
            job_tags=lambda arn: self.tags,
            stop_job=self._stop,
            write=lambda run, key, data: self._do("write", (run, key, data)),
            publish=lambda message: self._do("publish", message),
            put_metric=lambda *metric: self._do("metric", metric),
            put_event=self._put_event,
            now=lambda: NOW,
            subscribed=self.subscribed,
        )

    def messages(self) -> list[Message]:
        return [what for name, what in self.did if name == "publish"]

    def _do(self, name: str, what: Any) -> None:
        if name in self.broken:
            raise self.broken[name]
        self.did.append((name, what))

    def _describe(self, name: str) -> Job | None:
        if "describe" in self.broken:
            raise self.broken["describe"]
        return self.job

    def _stop(self, name: str) -> None:
        if self.status_when_stopped is not None:
            assert self.job is not None
            self.job = Job(self.job.arn, self.status_when_stopped, self.job.outputs)
            raise NotRunning("the job is not running")
        self._do("stop", name)

    def _put_event(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        if "event" in self.broken:
            raise self.broken["event"]
        assert detail_type == "Tocsin Action Taken"
        self.events.append(detail)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def make_world() -> type[World]:
    return World


@pytest.fixture
def detail() -> dict[str, Any]:
    return dict(DETAIL)


@pytest.fixture
def make_alert() -> Callable[..., Alert]:
    """Makes the alert above with other fields, named as in the event."""

    def make(**fields: Any) -> Alert:
        return msgspec.convert({**DETAIL, **fields}, Alert)

    return make
