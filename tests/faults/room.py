"""The one place where the tests of faults touch the insides of the project.

The tests say what must be so. How a run is written, how evaluation and alerts are put together in
memory, and how time passes for them, is said here: a change of the insides is followed here only.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto import mock_aws
from tocsin.actions import Effects
from tocsin.alerts import AlertPorts, Deliver, Flush, Known, RunCaps, TryAgain, parse_message, react
from tocsin.aws import groups
from tocsin.aws.clients import AWS_ERRORS
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.connect.act import connect_act
from tocsin.aws.connect.evaluate import connect_evaluate
from tocsin.aws.coordination import DynamoCoordination
from tocsin.aws.dynamodb import Table
from tocsin.aws.events import AwsPublisher
from tocsin.aws.events import Bus as AwsBus
from tocsin.aws.groups import DynamoGroups
from tocsin.aws.known_runs import KnownRuns
from tocsin.aws.limits import Shares, issue_caps
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.aws.settings import EvaluateSettings
from tocsin.evaluation import (
    Checkpoint,
    Hint,
    JobEnded,
    check,
    checkpoint_format,
    end_job,
    evaluate,
    memory_ports,
)
from tocsin.evaluation.ports import JobDirectory
from tocsin.events import ACTION_TAKEN, RUN_NEWS, RUN_SUMMARY, STATUS_CHANGE
from tocsin.owners import owner_of
from tocsin.rules import Rule, _registry, register
from tocsin.tensors import (
    END_MARKER,
    WATCH,
    Collection,
    LocalStorage,
    RunWriter,
    index_key,
    open_storage,
    patterns,
)
from tocsin.watch import to_watch

from tests.integration.alerts.conftest import CLIENT, Deployment
from tests.unit.alerts.world import EPOCH, RUN, Crash, Fake, alert
from tests.unit.evaluation.conftest import START, Job

__all__ = [
    "CAPTURES",
    "EPOCH",
    "RUN",
    "START",
    "Act",
    "Bus",
    "Crash",
    "CutOff",
    "Deployed",
    "DeployedRuns",
    "Deployment",
    "Known",
    "Room",
    "SageMaker",
    "Training",
    "alert",
]

CAPTURES = "s3://captures/"

BAD = 1e-12  # the mean of |gradient| that VanishingGradient fires at


class CutOff(BaseException):
    """Lambda has ended the invocation."""


def throttled(operation: str) -> ClientError:
    """The error of boto3 after its last retry."""
    error = {"Code": "ThrottlingException", "Message": "Rate exceeded"}
    return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, operation)


def refused(operation: str) -> ClientError:
    """The error of boto3 for a missing permission or key."""
    error = {"Code": "AccessDenied", "Message": "not authorized"}
    return ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 403}}, operation)


class Clock:
    """The time, in seconds since the epoch, as the test sets it."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Training(Job):
    """A training job that writes its run; ``url`` is the URL of the run."""

    url: str = ""

    def save_at(self, when: float, step: int, previous: int | None, **values: Any) -> str:
        """One step, written at ``when``. Returns the key of its index file."""
        key = self.save(step, previous=previous, **values)
        self.touch(key, when)
        return key

    def write_index(
        self,
        step: int,
        previous: int | None,
        names: Sequence[str] = ("gradient/fc",),
        *,
        worker: str = "worker_0",
        started: float | None = None,
        entry: Mapping[str, Any] = {},
        **summary: Any,
    ) -> str:
        """An index file that no writer of ours has checked; ``entry`` and ``summary`` are what all
        its tensors have beside their names. ``started``: when the start of the job began.
        """
        meta = {"mode": "TRAIN", "mode_step": step, "tocsin": 1}
        meta |= {"run_id": self.run_id, "prev_step": previous, "started": started}
        known = {"size": 4, "nan": 0, "posinf": 0, "neginf": 0, "abs_mean": 1e-2, **summary}
        shapes = [
            {"tensorname": name, "originalname": name, "shape": [4], "summary": known, **entry}
            for name in names
        ]
        document = {"meta": meta, "tensor_payload": [], "shape_payload": shapes}
        key = index_key(step, worker)
        self.storage.write(key, json.dumps(document).encode())
        self.touch(key, START + step)
        return key

    def watch(self, content: Mapping[str, Any]) -> None:
        """The run's own watch file."""
        self.storage.write(WATCH, json.dumps(content).encode())

    def end_at(self, when: float, *, by_hook: bool = True) -> None:
        """Write the end marker, of a hook with its start or of SageMaker."""
        RunWriter(self.storage, run_id=self.run_id if by_hook else None).close()
        self.touch(END_MARKER, when)


@dataclass(frozen=True)
class RuleKnown:
    """Return the record of a rule."""

    status: str
    details: str
    violations: int
    data_points: int
    first_violation: int | None


@dataclass(frozen=True)
class RunKnown:
    """Return the checkpoint of a run."""

    steps: int
    last_step: int | None
    frontier: int
    ended: str | None
    refused_files: int
    late_files: int
    missing_workers: int
    unpublished: int
    rules: Mapping[str, RuleKnown]

    @property
    def statuses(self) -> dict[str, str]:
        return {name: rule.status for name, rule in self.rules.items()}


def _known(checkpoint: Checkpoint) -> RunKnown:
    return RunKnown(
        steps=checkpoint.steps,
        last_step=checkpoint.last_step,
        frontier=checkpoint.frontier,
        ended=checkpoint.ended,
        refused_files=checkpoint.refused_files,
        late_files=checkpoint.late_files,
        missing_workers=checkpoint.missing_workers,
        unpublished=len(checkpoint.unpublished),
        rules={
            name: RuleKnown(
                record.status.value,
                record.details,
                record.violations,
                record.data_points,
                record.first_violation.step if record.first_violation else None,
            )
            for name, record in checkpoint.rules.items()
        },
    )


class Tapped:
    """Passes every call on, after ``tap`` has seen its name and arguments."""

    def __init__(self, inner: Any, tap: Callable[..., None]) -> None:
        self._inner = inner
        self._tap = tap

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self._tap(name, *args)
            return attribute(*args, **kwargs)

        return call


class Bus:
    """EventBridge: refuses a request of more than ``limit`` bytes, and each entry that is
    ``malformed``, by itself.
    """

    def __init__(
        self, limit: int = 262_144, malformed: Callable[[str], bool] = lambda detail: False
    ) -> None:
        self.limit = limit
        self.malformed = malformed
        self.taken: list[tuple[str, dict[str, Any]]] = []

    def put_events(self, Entries: Sequence[Mapping[str, str]]) -> dict[str, Any]:  # noqa: N803
        parts = ("Source", "DetailType", "Detail")
        if sum(len(entry[part].encode()) for entry in Entries for part in parts) > self.limit:
            message = "Total size of the entries in the request is over the limit."
            error = {"Code": "ValidationException", "Message": message}
            raise ClientError({"Error": error}, "PutEvents")
        answers = []
        for entry in Entries:
            if self.malformed(entry["Detail"]):
                answers.append({"ErrorCode": "MalformedDetail", "ErrorMessage": "refused"})
                continue
            self.taken.append((entry["DetailType"], json.loads(entry["Detail"])))
            answers.append({"EventId": str(len(self.taken))})
        failed = sum("ErrorCode" in answer for answer in answers)
        return {"FailedEntryCount": failed, "Entries": answers}

    def details(self, kind: str) -> list[dict[str, Any]]:
        return [detail for each, detail in self.taken if each == kind]


class Metrics:
    """CloudWatch; ``names`` are the metrics that it got, ``billed`` those with their dimensions."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.billed: set[tuple[str, ...]] = set()

    def put_metric_data(
        self,
        Namespace: str,  # noqa: N803
        MetricData: Sequence[Mapping[str, Any]],  # noqa: N803
    ) -> None:
        self.names |= {datum["MetricName"] for datum in MetricData}
        for datum in MetricData:
            values = (each["Value"] for each in datum["Dimensions"])
            self.billed.add((datum["MetricName"], *values))


class SageMaker:
    """SageMaker's training jobs: DescribeTrainingJob responses by name."""

    def __init__(self, **jobs: Mapping[str, Any]) -> None:
        self.jobs = {name: dict(job) for name, job in jobs.items()}
        self.stopped: list[str] = []

    @staticmethod
    def arn(name: str, account: str = "123456789012") -> str:
        return f"arn:aws:sagemaker:us-east-1:{account}:training-job/{name}"

    @staticmethod
    def job(
        output: str, status: str = "InProgress", account: str = "123456789012"
    ) -> dict[str, Any]:
        """A job that writes its run to ``output``."""
        name = output.rstrip("/").rpartition("/")[2]
        return {
            "TrainingJobName": name,
            "TrainingJobArn": SageMaker.arn(name, account),
            "TrainingJobStatus": status,
            "DebugHookConfig": {"S3OutputPath": output},
        }

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803
        if TrainingJobName not in self.jobs:
            error = {"Code": "ValidationException", "Message": "Requested resource not found."}
            raise ClientError({"Error": error}, "DescribeTrainingJob")
        return self.jobs[TrainingJobName]

    def stop_training_job(self, TrainingJobName: str) -> None:  # noqa: N803
        self.jobs[TrainingJobName]["TrainingJobStatus"] = "Stopping"
        self.stopped.append(TrainingJobName)

    def get_paginator(self, operation: str) -> Any:
        assert operation == "list_tags"
        return self

    def paginate(self, ResourceArn: str) -> list[dict[str, Any]]:  # noqa: N803
        return [self.list_tags(ResourceArn)]

    def list_tags(self, ResourceArn: str) -> dict[str, Any]:  # noqa: N803
        return {"Tags": []}


class _Later:
    """Hints with a delay; the room hands them out when time passes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.messages: list[tuple[float, str]] = []

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        self.messages.append((self._clock.now + delay, run))


class Room:
    """Runs in folders, and ``evaluate`` over them in memory. ``watch`` is the deployment's file.

    ``bus`` is what is published, ``telemetry`` the sum of each metric of the looks. All times are
    those of ``clock``; ``ends`` is when Lambda ends the invocation at work.
    """

    def __init__(
        self, folder: Path, watch: Mapping[str, Any], *, now: float = START, bus: Bus | None = None
    ) -> None:
        self.folder = folder
        self.clock = Clock(now)
        self.bus = bus or Bus()
        self.watch = to_watch(watch)
        self.hints = _Later(self.clock)
        self.world = replace(
            memory_ports(LocalStorage(folder), self.clock),
            storage=self._storage,
            publisher=AwsPublisher(
                AwsBus(self.bus, "tocsin"), MetricSink(Metrics()), self.clock, job_metrics=True
            ),
            hints=self.hints,
            default=self.watch,
            outages=(*AWS_ERRORS, OSError),
        )
        self.ends = math.inf
        self.telemetry = Counter[str]()
        self._looks = 0
        self._killed = False
        self._delivered = 0

    # Runs.

    def job(self, path: str = "jobs/j1", workers: int = 1) -> Training:
        """A job that has written its collections file, and no step."""
        url = CAPTURES + path
        job = Training(self._storage(url), num_workers=workers, url=url)
        job.begin()
        return job

    def _storage(self, run: str) -> LocalStorage:
        return LocalStorage(self.folder / run.removeprefix(CAPTURES))

    # Looks.

    def look(
        self, job: Training | str, *keys: str, tick: float | None = None, seconds: float = 60.0
    ) -> None:
        """One invocation of ``evaluate`` for a notification of these keys, or for a tick."""
        self._looks += 1
        url = job if isinstance(job, str) else job.url
        self.ends = self.clock.now + seconds
        owner = f"invocation-{self._looks}"
        report = evaluate(Hint(url, keys, tick), self.world, owner=owner, ends=self.ends)
        for name, _, value in report.metrics:
            self.telemetry[name] += value

    def tried(self, job: Training | str, **options: Any) -> str:
        """Look at a run. Return the error, or ""; after an error the message returns."""
        try:
            self.look(job, **options)
        except Exception as error:  # noqa: BLE001  # SQS brings a message back for any
            return f"{type(error).__name__}: {error}"
        return ""

    def cut_off(self, job: Training | str, *, at: str = "read", seconds: float = 60.0) -> bool:
        """A look that is at its first ``at`` of the run's storage until Lambda ends it. False if it
        never got there.
        """
        whole = self.world

        def dies(name: str, *_: Any) -> None:
            if name == at:
                self.kill()

        self.tap("storage", dies)
        try:
            return not self.survives(job, seconds=seconds)
        finally:
            self.world = whole

    def kill(self) -> NoReturn:
        """Ends the invocation at work: nothing is done after that, not even in a ``finally``."""
        self._killed = True
        raise CutOff

    def survives(
        self, job: Training | str, *keys: str, tick: float | None = None, seconds: float = 60.0
    ) -> bool:
        """A look. False if something in it kills the invocation, which then holds its lease until
        Lambda would have ended it.
        """
        whole, ends, self._killed = self.world, self.clock.now + seconds, False

        def stays_dead(*_: Any) -> None:
            if self._killed:
                raise CutOff

        for port in ("storage", "checkpoints", "coordination", "publisher", "hints", "jobs"):
            self.tap(port, stays_dead)
        try:
            self.look(job, *keys, tick=tick, seconds=seconds)
        except CutOff:
            self.clock.now = ends
        finally:
            self.world = whole
        return not self._killed

    def wait(self, seconds: float) -> None:
        """Advance the time without any event."""
        self.clock.now += seconds

    def pass_time(self, seconds: float) -> None:
        """Advance the time: delayed hints arrive, and the patrol runs each minute."""
        end = self.clock.now + seconds
        while True:
            minute = (self.clock.now // 60 + 1) * 60
            at, run = min(self.hints.messages, default=(minute, None))
            at = min(at, minute)
            if at > end:
                self.clock.now = end
                return
            self.clock.now = max(self.clock.now, at)
            if run is not None and (message := (at, run)) in self.hints.messages:
                self.hints.messages.remove(message)
                self.look(run)
                continue
            for due in self._due():
                self.look(due, tick=self.clock.now)

    def _due(self) -> list[str]:
        items = self.world.coordination.items
        return [
            run
            for run, item in items.items()
            if item.due_at is not None and item.due_at <= self.clock.now
        ]

    def lose_messages(self) -> None:
        """All hints that are on their way are lost."""
        self.hints.messages.clear()

    def notify_while_busy(self, job: Training, *keys: str) -> None:
        """Notifications that arrive while another invocation holds the run."""
        for key in keys:
            self.world.coordination.hint(job.url, (key,))

    def end_job(self, name: str, arn: str = "") -> None:
        """Send SageMaker's event about the end of a job."""
        end_job(JobEnded(name, arn or SageMaker.arn(name)), self.world)

    # What the world is made of.

    def tap(self, port: str, tap: Callable[..., None]) -> None:
        """Shows ``tap`` each call of a port: storage, checkpoints, coordination, jobs … ."""
        inner = getattr(self.world, port)
        tapped = Tapped(inner, tap)
        if port == "storage":
            self.world = replace(self.world, storage=lambda run: Tapped(inner(run), tap))
        else:
            self.world = replace(self.world, **{port: tapped})

    def failing(self, port: str, call: str, times: int) -> None:
        """The first ``times`` calls of that name fail as boto3 does when AWS throttles."""
        left = times

        def tap(name: str, *_: Any) -> None:
            nonlocal left
            if name == call and left:
                left -= 1
                raise throttled(f"{port}.{call}")

        self.tap(port, tap)

    def with_storage(self, wrap: Callable[[Any], Any]) -> None:
        """Every run's storage is another."""
        inner = self.world.storage
        self.world = replace(self.world, storage=lambda run: wrap(inner(run)))

    def with_sagemaker(self, client: SageMaker) -> None:
        self.with_jobs(SageMakerJobs(client))

    def with_jobs(self, jobs: JobDirectory) -> None:
        """SageMaker's jobs, of one account or of several."""
        self.world = replace(self.world, jobs=jobs)

    def with_dynamodb(self, client: Any) -> None:
        """The runs are coordinated by items of the table ``table``."""
        coordination = DynamoCoordination(Table(client, "table"), self.clock)
        self.world = replace(self.world, coordination=coordination)

    def with_metrics(self, client: Any, most: int) -> Metrics:
        """CloudWatch gets what the limits allow, which are counted in items of the table: at most
        so many names of a run.
        """
        metrics = Metrics()
        shares = Shares(Table(client, "table"), issue_caps(most), owner_of, self.clock)
        publisher = AwsPublisher(
            AwsBus(self.bus, "tocsin"),
            MetricSink(metrics),
            self.clock,
            job_metrics=True,
            admit=partial(shares.admit, "issue"),
        )
        self.world = replace(self.world, publisher=publisher)
        return metrics

    def name_runs_after(self, job: str, runs: Sequence[str]) -> None:
        """Write runs into folders with the name of the job, and look at each."""
        for run in runs:
            self.world.coordination.remember_job(job, run)

    def spoil_checkpoint(self, job: Training) -> None:
        """Make the checkpoint of the run unreadable."""
        _, version = self.world.checkpoints.objects[job.url]
        self.world.checkpoints.objects[job.url] = (b"not a checkpoint", version)

    # What came of it.

    def trouble(self, job: Training) -> str:
        """Return why the run is not evaluated, as ``tocsin status`` prints it."""
        found = self.world.coordination.trouble(job.url)
        return found.reason if found else ""

    def known(self, job: Training) -> RunKnown:
        """Return the state of the run in its checkpoint."""
        return _known(self.world.checkpoints.load(job.url).checkpoint)

    def checked(self, job: Training, *, tick: bool = False) -> RunKnown:
        """Return the verdicts of ``tocsin check`` on the run, with the same watch file."""
        wrapped = self.world.storage(job.url)
        return _known(check(wrapped, self.watch, now=self.clock, tick=tick)[0])

    def changes(self, rule: str | None = None) -> list[dict[str, Any]]:
        """The status changes that were published, of one rule or of all."""
        found = self.bus.details(STATUS_CHANGE)
        return [each for each in found if rule in (None, each["RuleConfigurationName"])]

    @property
    def summaries(self) -> list[dict[str, Any]]:
        return self.bus.details(RUN_SUMMARY)

    def deliver(self, act: Act) -> None:
        """Deliver published events to ``act``, by the rules of the stack on the bus."""
        new = self.bus.taken[self._delivered :]
        self._delivered = len(self.bus.taken)
        for kind, detail in new:
            if kind == RUN_NEWS:
                run, body = detail["Run"], {"source": "tocsin", "detail-type": kind}
                known = KnownRuns(self.world.checkpoints, self.clock).known(run)
                act.known_runs |= {run: known} if known else {}
                act.receive(parse_message(json.dumps({**body, "detail": detail})))


def limit_checkpoints(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Limit the size of a decompressed checkpoint, in bytes."""
    monkeypatch.setattr(checkpoint_format, "MOST_BYTES", most)


def limit_groups(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Limit the size of a compressed group of alerts, in bytes."""
    monkeypatch.setattr(groups, "_MOST_BYTES", most)


def add_rule(monkeypatch: pytest.MonkeyPatch, rule: type[Rule]) -> None:
    """A custom rule, for this test only."""
    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    register(rule)


class SlowPattern:
    """A pattern that takes ``seconds`` for each name, by a clock of its own; all clocks that
    measure durations follow it. ``spent`` is how long was searched in all.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pattern: str, seconds: float) -> None:
        self.spent = 0.0
        self._seconds = seconds
        compile_ = patterns._compile
        monkeypatch.setattr(
            patterns, "_compile", lambda given: self if given == pattern else compile_(given)
        )
        for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
            monkeypatch.setattr(time, name, lambda: self.spent)

    def search(self, text: str, timeout: float) -> object:
        self.spent += min(self._seconds, timeout)
        if timeout < self._seconds:
            raise TimeoutError
        return self


# Alerts.


class _Table:
    """As much of DynamoDB as groups of alerts need; commits are on the version that was read."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}

    def get_item(self, Key: Any, **_: Any) -> dict[str, Any]:  # noqa: N803
        key = Key["pk"]["S"]
        return {"Item": self.items[key]} if key in self.items else {}

    def put_item(self, Item: Any, **_: Any) -> None:  # noqa: N803
        assert len(Item["body"]["B"]) < 400_000
        self.items[Item["pk"]["S"]] = Item


@dataclass
class Act(Fake):
    """``act`` in memory: AWS that can break at any call, and time that passes.

    ``metric_names`` are those that were put, ``checkpoint_reads`` counts looks into checkpoints.
    """

    metric_names: set[str] = field(default_factory=set)
    checkpoint_reads: int = 0
    cut_off_at: str = ""
    table: _Table | None = None
    caps: RunCaps = field(default_factory=RunCaps)

    @property
    def effects(self) -> Effects:
        def put_metric(name: str, value: float, labels: Mapping[str, str]) -> None:
            self.metric_names.add(name)
            effects.put_metric(name, value, labels)

        effects = super().effects
        return replace(effects, put_metric=put_metric)

    @property
    def ports(self) -> AlertPorts:
        ports = replace(super().ports, caps=self.caps)
        if self.table is None:
            return ports
        table = DynamoGroups(Table(self.table, "table"), lambda: self.now)
        return replace(ports, groups=table)

    @classmethod
    def on_a_table(cls) -> Act:
        """Groups of alerts are kept as items of a table, with its limits."""
        return cls(table=_Table())

    def known(self, run: str) -> Known | None:
        self.checkpoint_reads += 1
        return super().known(run)

    def know(self, *alerts: Any) -> None:
        """The run's checkpoint has these alerts."""
        rules = frozenset(each.rule_configuration_name for each in alerts)
        newest = max(each.sequence for each in alerts)
        self.known_runs[alerts[0].run] = Known(alerts, rules, newest)

    def cut_off_after(self, call: str) -> None:
        """The invocation is cut off right after its first such call."""
        self.cut_off_at = call

    def _does(self, name: str, do: Callable[[], None]) -> None:
        super()._does(name, do)
        if name == self.cut_off_at:
            raise Crash

    def begin(self, message: Any) -> bool:
        """One invocation; False if it was cut off, or its message must come back."""
        try:
            self.react(message)
        except (Crash, TryAgain):
            return False
        return True

    @property
    def subjects(self) -> list[str]:
        """Of the e-mails that were sent."""
        return [mail.subject or "" for mail in self.published if "email" in mail.texts]

    @property
    def texts(self) -> list[str]:
        """Of the e-mails that were sent."""
        return [mail.texts["email"] for mail in self.published if "email" in mail.texts]

    def notified(self, channel: str) -> list[tuple[str, str]]:
        """Return the notifications by ``email`` or ``webhook``, in order: rule and state."""
        if channel == "webhook":
            return [
                (each["RuleConfigurationName"], what)
                for event in self.posted
                for what in ("firing", "resolved")
                for each in event[what]
            ]
        return [each for text in self.texts for each in _of_email(text)]

    @property
    def listed_though_never_sent(self) -> list[str]:
        """Rules that an e-mail lists as notified before, and none before it was about."""
        sent: set[str] = set()
        wrong: list[str] = []
        for text in self.texts:
            listed = re.findall(r"^  (\w+)", _section(text, " before:"), re.MULTILINE)
            wrong += [rule for rule in listed if rule not in sent]
            sent |= {rule for rule, what in _of_email(text) if what == "firing"}
        return wrong


def _of_email(text: str) -> list[tuple[str, str]]:
    firing = re.findall(
        r"^(?:\d+\. )?(\w+)(?: fired in .*| is still firing in .*)?$", text, re.MULTILINE
    )
    resolved = re.findall(r"^  (\w+)", _section(text, "Resolved:"), re.MULTILINE)
    return [*((rule, "firing") for rule in firing), *((rule, "resolved") for rule in resolved)]


def _section(text: str, title: str) -> str:
    """Return the lines below a title, up to the next empty line."""
    return text.partition(title)[2].partition("\n\n")[0]


@dataclass
class Nested(Act):
    """Others come in at the ``at``-th call of the outside world of a first invocation, before or
    ``after`` it; that one then goes on, or ``crashes``.
    """

    at: int = 0
    after: bool = False
    crashes: bool = False
    others: Sequence[Any] = ()
    reached: bool = False
    count: int = 0

    def save(self, group: Any, version: int | None) -> int:
        if not self.after and self._here():
            self._come_in()  # in front of the conditional write, which is atomic
        return super().save(group, version)

    def _does(self, name: str, do: Callable[[], None]) -> None:
        here = self._here()
        self.count += 1
        if here and not self.after:
            self._come_in()
        super()._does(name, do)
        if here and self.after:
            self._come_in()

    def _here(self) -> bool:
        return not self.reached and self.count == self.at

    def _come_in(self) -> None:
        self.reached = True
        for message in self.others:
            if not self.begin(message):
                self.queue.append((self.now + 180, message))
        if self.crashes:
            raise Crash


# The deployed functions, over moto.

Calls = list[tuple[str, dict[str, Any]]]
"""Calls of AWS, each by its name, such as ``s3.GetObject``, with its parameters."""


@contextmanager
def aws_in_process() -> Iterator[None]:
    """moto's AWS, and clients that are made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(boto3, "client", CLIENT)
        with mock_aws():
            yield


class Deployed:
    """``act`` and ``evaluate`` with their real adapters: DynamoDB, S3, SNS and SQS are moto's,
    SageMaker, EventBridge and CloudWatch are doubles.
    """

    def __init__(self, sagemaker: SageMaker | None = None, **options: Any) -> None:
        self.stack = Deployment(watched=False)
        self.sagemaker = sagemaker or SageMaker()
        self.bus = Bus()
        self.metrics = Metrics()
        self.clock = Clock(EPOCH)
        doubles = {"sagemaker": self.sagemaker, "events": self.bus, "cloudwatch": self.metrics}
        environment = {**self.stack.environment, **options}
        settings = type(self.stack.settings).read(environment)
        act = connect_act(
            settings, lambda name: doubles.get(name) or boto3.client(name), self.clock
        )
        self._evaluate = Fake()
        self._act = replace(act, checkpoints=self._evaluate)
        self._runs: set[str] = set()

    def receive(self, message: Any) -> None:
        """One message for ``act``, after ``evaluate`` has committed it."""
        self._runs.add(message.run)
        self._react(self._evaluate.commit(message))

    def _react(self, message: Any) -> None:
        for each in (message, Deliver(message.run)):
            react(each, self._act, ends=self.clock.now + 30)

    def pass_time(self, seconds: float) -> None:
        """Advance the time, then let the patrol evaluate all runs."""
        self.clock.now += seconds
        for run in sorted(self._runs):
            self._react(Flush(run))

    def outcomes(self, run: str, action: str) -> list[str]:
        """Return the outcomes of an action for a run, in order."""
        return [
            event["Outcome"]
            for event in self.bus.details(ACTION_TAKEN)
            if (event["Run"], event["Action"]) == (run, action)
        ]


@contextmanager
def calls_of_aws() -> Iterator[Calls]:
    """Every call that boto3 is asked for meanwhile."""
    calls: Calls = []
    original = BaseClient._make_api_call

    def counted(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        calls.append((f"{client.meta.service_model.service_name}.{operation}", parameters))
        return original(client, operation, parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", counted)
        yield calls


class DeployedRuns:
    """Runs in moto's S3, evaluated by the function's own adapters."""

    def __init__(self, watch: Mapping[str, Any]) -> None:
        stack = Deployment(watched=False)
        settings = EvaluateSettings(
            table="table", state_bucket="state", evaluate_queue_url=stack.evaluate, bus="tocsin"
        )
        self._world = connect_evaluate(settings, to_watch(watch))
        self._looks = 0

    def job(self, path: str, workers: int) -> Training:
        """A job that has written its collections files, and no step."""
        url = CAPTURES + path
        storage = open_storage(url, client=boto3.client("s3"))
        for worker in range(workers):
            losses = Collection("losses", tensor_names=("loss",))
            RunWriter(storage, f"worker_{worker}").write_collections([losses], workers)
        return _Uploaded(storage, num_workers=workers, url=url)

    def save(self, job: Training, step: int, *workers: int) -> None:
        """These workers, or all, save the step."""
        for worker in workers or range(job.num_workers):
            job.save(step, previous=step - 1 if step else None, worker=f"worker_{worker}")

    def notify(self, job: Training, step: int, *workers: int) -> None:
        """The notification of each file of the step is worked off by itself: of these workers', or
        of all.
        """
        for worker in workers or range(job.num_workers):
            self.look(job.url, index_key(step, f"worker_{worker}"))

    def look(self, url: str, *keys: str) -> None:
        """One invocation works off the notifications of these files."""
        self._looks += 1
        owner = f"invocation-{self._looks}"
        evaluate(Hint(url, keys), self._world, owner=owner, ends=time.time() + 600)

    def evaluated(self, url: str) -> int:
        """The number of steps that were evaluated."""
        return self._world.checkpoints.load(url).checkpoint.steps

    def known(self, job: Training) -> RunKnown:
        return _known(self._world.checkpoints.load(job.url).checkpoint)


@dataclass
class _Uploaded(Training):
    def touch(self, key: str, modified: float) -> None:
        """S3 says itself when a file was written."""
