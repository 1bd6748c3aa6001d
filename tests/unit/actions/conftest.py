"""An alert to act on, and a world that remembers what was done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tocsin.actions import (
    Effects,
    JobToStop,
    Links,
    Lookups,
    NotRunning,
    ReportLinks,
    Request,
    StopHeld,
    TopicMessage,
)
from tocsin.events import RunSummary, StatusChange

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

DETAIL: Mapping[str, Any] = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1/debug-output",
    "RuleConfigurationName": "VanishingGradient",
    "Rule": "VanishingGradient",
    "RuleEvaluationStatus": "IssuesFound",
    "PreviousStatus": "InProgress",
    "StatusDetails": "the mean |gradient| of gradient/fc1 is 3.1e-09, below the threshold 1e-07",
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

SUMMARY: Mapping[str, Any] = {
    "TrainingJobName": "j1",
    "Run": "s3://captures/jobs/j1/debug-output",
    "RunId": "r1",
    "DedupId": "s1",
    "Ending": "marker",
    "Steps": {"evaluated": 12, "first": 10, "last": 120},
    "RuleEvaluationStatus": "IssuesFound",
    "Summary": ["email"],
    "DebugRuleEvaluationStatuses": [
        {
            "RuleConfigurationName": "AllZero",
            "RuleEvaluationStatus": "NoIssuesFound",
            "StatusDetails": "",
        },
        {
            "RuleConfigurationName": "Overfit",
            "RuleEvaluationStatus": "IssuesFound",
            "StatusDetails": "loss of EVAL grows",
        },
        {
            "RuleConfigurationName": "TreeDepth",
            "RuleEvaluationStatus": "NotApplicable",
            "StatusDetails": "no tree",
        },
    ],
    "EvaluatedAt": "2026-01-02T03:04:05Z",
}


@dataclass
class World:
    """What the ports reach: one job perhaps, and a list of everything that happened, in order."""

    job: JobToStop | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    status_when_stopped: str | None = None
    broken: Mapping[str, Exception] = field(default_factory=dict)
    did: list[tuple[str, Any]] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)
    unconfirmed: Mapping[str, str] = field(default_factory=dict)
    guard: str | None = None
    cap: str | None = None
    recent: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    broadcast: Mapping[str, int] = field(default_factory=lambda: {"email": 2, "sms": 3})
    reaches: bool = True
    links: Links = field(default_factory=Links)
    report: ReportLinks = field(default_factory=ReportLinks)
    machine: Sequence[StatusChange] | None = None
    relaunch_roles: frozenset[str] = frozenset()

    @property
    def lookups(self) -> Lookups:
        return Lookups(
            describe_job=self._describe,
            job_tags=lambda arn: self.tags,
            refuses=lambda kind, to: self.refused.get(to),
            recent=lambda alert: self.recent.get(alert.tensor or "", ()),
            now=lambda: NOW,
            broadcast=self.broadcast,
            reaches=lambda kind: self.reaches,
            links=self.links,
            report=lambda run: self.report,
            machine=lambda run: self.machine,
            relaunch_roles=self.relaunch_roles,
        )

    @property
    def effects(self) -> Effects:
        return Effects(
            reserve_stop=self._reserve_stop,
            stop_job=self._stop,
            relaunch=lambda plan: self._do("relaunch", plan),
            write=lambda run, key, data: self._do("write", (run, key, data)),
            subscribe=lambda *to: self._ask("subscribe", to, self.unconfirmed.get(to[2])),
            reserve=lambda *what: self._ask("reserve", what, self.cap),
            release=lambda *what: self._do("release", what),
            publish=lambda message: self._do("publish", message),
            post=lambda *delivery: self._do("post", delivery),
            put_metric=lambda *metric: self._do("metric", metric),
        )

    @property
    def ports(self) -> tuple[Lookups, Effects]:
        return self.lookups, self.effects

    def messages(self) -> list[TopicMessage]:
        return [what for name, what in self.did if name == "publish"]

    def _do(self, name: str, what: Any) -> None:
        if name in self.broken:
            raise self.broken[name]
        self.did.append((name, what))

    def _ask(self, name: str, what: Any, answer: str | None) -> str | None:
        self._do(name, what)
        return answer

    def _reserve_stop(self, run: str, by: str) -> StopHeld | None:
        self._do("reserve_stop", (run, by))
        return StopHeld(self.guard, 1.0) if self.guard else None

    def _describe(self, name: str, run: str) -> JobToStop | None:
        if "describe" in self.broken:
            raise self.broken["describe"]
        return self.job

    def _stop(self, arn: str) -> None:
        if self.status_when_stopped is not None:
            assert self.job is not None
            self.job = JobToStop(self.job.arn, self.status_when_stopped, self.job.outputs)
            raise NotRunning("the job is not running")
        self._do("stop", arn.rpartition("/")[2])


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
def make_alert() -> Callable[..., StatusChange]:
    """Makes the alert above with other fields, named as in the event."""

    def make(**fields: Any) -> StatusChange:
        return msgspec.convert({**DETAIL, **fields}, StatusChange)

    return make


@pytest.fixture
def ask(make_alert: Callable[..., StatusChange]) -> Callable[..., Request]:
    """Makes a request: the action, then the fields of each alert that fires; one if none is given.

    By keyword what else a request has; with ``resolved``, ``withdrawn`` or ``summary`` nothing
    fires unless said.
    """

    def make(action: str, *firing: Mapping[str, Any], **more: Any) -> Request:
        alone = bool({"resolved", "withdrawn", "summary"} & more.keys())
        alerts = firing or (() if alone else ({},))
        return Request(action, tuple(make_alert(**fields) for fields in alerts), **more)

    return make


@pytest.fixture
def make_summary() -> Callable[..., RunSummary]:
    """Makes the end of the run above, with other fields, named as in the event."""

    def make(**fields: Any) -> RunSummary:
        return msgspec.convert({**SUMMARY, **fields}, RunSummary)

    return make
