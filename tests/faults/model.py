"""A deployment in memory whose invocations can stop at each external call.

``evaluate`` and ``act`` run as they are deployed, in a thread each; only one of them runs at a
time. At each call of AWS it may be left there while others go on, may be cut off, or may find the
service throttled. Time passes only when the test says so.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from tocsin.alerts import AlertGroup, AlertPorts, Deliver, Flush, StoredGroup, TryAgain, react
from tocsin.aws.clients import AWS_ERRORS, is_denied
from tocsin.aws.cloudwatch import MetricSink
from tocsin.aws.events import AwsPublisher, NotPublished
from tocsin.aws.events import Bus as AwsBus
from tocsin.aws.known_runs import KnownRuns
from tocsin.evaluation import (
    Checkpoint,
    EvaluationPorts,
    Hint,
    JobDescription,
    JobEnded,
    Lease,
    MemoryCheckpoints,
    MemoryCoordination,
    MemoryTraces,
    end_job,
    evaluate,
    handle_batch,
)
from tocsin.evaluation.messages import COLLECTIONS_WRITTEN, CONTINUE
from tocsin.evaluation.reconciliation import SKIP_ATTEMPTS
from tocsin.events import RunNews, StatusChange
from tocsin.own_messages import encode_hint
from tocsin.tensors import NotFound, Object
from tocsin.watch import Watch

from tests.faults.room import EPOCH, RUN, Crash, Metrics, refused, throttled
from tests.unit.alerts.world import Fake

JOB = "j1"
SECONDS = {"evaluate": 60.0, "act": 30.0}  # that an invocation has
VISIBILITY = {"evaluate": 360.0, "act": 180.0}
TO_THE_END = 1_000_000

Body = Hint | JobEnded | RunNews | Flush | Deliver


def _encoded(body: Body) -> str:
    """A message of evaluate's queue, in the form of SQS."""
    if isinstance(body, JobEnded):
        detail = {"TrainingJobName": body.job, "TrainingJobArn": body.arn}
        detail["TrainingJobStatus"] = "Completed"
        return json.dumps({"source": "aws.sagemaker", "detail": detail})
    assert isinstance(body, Hint)
    if not body.keys:
        return encode_hint(body.run, "model", body.tick)
    bucket, _, prefix = body.run.removeprefix("s3://").partition("/")
    objects = [
        {"bucket": {"name": bucket}, "object": {"key": f"{prefix}/{key}"}} for key in body.keys
    ]
    return json.dumps({"Records": [{"s3": each} for each in objects]})


@dataclass(eq=False)
class Message:
    """A message of one of the two queues, from ``due`` on. One that is not ``durable`` may be lost:
    S3's notifications and our own hints. EventBridge delivers what it has accepted.
    """

    queue: str
    body: Body
    due: float
    durable: bool = False


@dataclass
class Files:
    """The files of the run; S3 says when each was written."""

    now: Callable[[], float]
    url: str = RUN
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        return iter([self._object(key) for key in keys])

    def head(self, key: str) -> Object:
        found = self._object(key)
        return Object(key, found.size, float(int(found.modified)))  # HEAD knows whole seconds

    def read(self, key: str, limit: int | None = None) -> bytes:
        self._object(key)
        return self.objects[key][0]

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        content = self.read(key)
        return [content[start : start + length] for start, length in ranges]

    def write(self, key: str, data: bytes) -> None:
        self.objects[key] = data, self.now()

    def _object(self, key: str) -> Object:
        if key not in self.objects:
            raise NotFound(self.url, key)
        data, modified = self.objects[key]
        return Object(key, len(data), modified)


class Checkpoints(MemoryCheckpoints):
    """Also keeps each firing that was ever committed, by its identity."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: dict[str, StatusChange] = {}

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        new = super().save(checkpoint, version)
        self.fired |= {change.dedup_id: change for change in checkpoint.outbox if change.firing}
        return new


@dataclass
class Coordination(MemoryCoordination):
    """``given_up``: an invocation was told to give a step up, after all its attempts."""

    given_up: bool = False

    def take(
        self, run: str, owner: str, now: float, until: float, keys: Sequence[str] = ()
    ) -> Lease | None:
        lease = super().take(run, owner, now, until, keys)
        self.given_up = self.given_up or (lease is not None and lease.attempts > SKIP_ATTEMPTS)
        return lease


@dataclass
class Alerts(Fake):
    """Also keeps each task that was ever committed, by its name, and how often each was posted."""

    decided: dict[str, Any] = field(default_factory=dict)
    posts: Counter[str] = field(default_factory=Counter)

    def save(self, group: AlertGroup, version: int | None) -> int:
        new = super().save(group, version)
        self.decided |= {task.id: task for task in group.tasks if task.id not in self.decided}
        return new

    def post(self, name: str, event: Mapping[str, Any], key: str) -> None:
        self.posts[key] += 1


class Invocation:
    """One invocation, in a thread that runs only while ``resume`` waits for it.

    skew: how many seconds its clock is ahead.
    outcome: None while it is at work; "done", "failed" or "dead".
    """

    def __init__(
        self,
        model: Model,
        messages: Sequence[Message],
        skew: float,
        work: Callable[[Invocation], None],
    ) -> None:
        self.messages, self.queue = messages, messages[0].queue
        self.outcome: str | None = None
        self.error: BaseException | None = None
        self.ends = model.now + SECONDS[self.queue]
        self._model, self._skew = model, skew
        self.failed: Collection[str] = {"0"}  # the positions of messages that come back
        self._left, self._dead = 0, False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def now(self) -> float:
        return self._model.now + self._skew

    def resume(self, calls: int = TO_THE_END) -> None:
        """Continue the invocation for ``calls`` calls, or to its end."""
        self._left = calls
        self._dead = self._dead or self._model.now > self.ends
        self._go.release()
        self._back.acquire()

    def crash(self) -> None:
        self._dead = True
        self.resume()

    def hang(self) -> None:
        """Is at work until Lambda ends it, if it is this invocation that calls."""
        if threading.current_thread() is self._thread:
            self._dead = True
            raise Crash

    def call(self, service: str, do: Callable[[], Any]) -> Any:
        """A call of the outside world, which is made when it is this invocation's turn."""
        if threading.current_thread() is not self._thread:  # one of several reads at once
            return do()
        if not self._left and not self._dead:
            self._back.release()
            self._go.acquire()
        if self._dead:
            raise Crash
        self._left -= 1
        if service in self._model.refused:
            raise refused(service)
        if self._model.throttled[service] > 0:
            self._model.throttled[service] -= 1
            raise throttled(service)
        answer = do()
        return iter([*answer]) if isinstance(answer, Iterator) else answer

    def port(self, service: str, inner: Any) -> Any:
        """The port, with each of its methods such a call."""
        return _Port(self, service, inner)

    def _run(self, work: Callable[[Invocation], None]) -> None:
        self._go.acquire()
        try:
            work(self)
            self.outcome = "dead" if self._dead else "done"
        except Crash:
            self.outcome = "dead"
        except BaseException as error:  # noqa: BLE001  # the model says which may be
            self.outcome, self.error = "failed", error
        self._back.release()


class _Port:
    def __init__(self, invocation: Invocation, service: str, inner: Any) -> None:
        self._invocation, self._service, self._inner = invocation, service, inner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self._invocation.call(
            self._service, lambda: attribute(*args, **kwargs)
        )


_EXPECTED = (*AWS_ERRORS, TryAgain, NotPublished)  # their messages come back


@dataclass
class Model:
    """The deployment: its queues and running invocations.

    throttled: how many calls of a service fail. refused: services that refuse each call.
    """

    watch: Watch
    now: float = EPOCH
    messages: list[Message] = field(default_factory=list)
    at_work: list[Invocation] = field(default_factory=list)
    throttled: Counter[str] = field(default_factory=Counter)
    refused: set[str] = field(default_factory=set)
    cut_off: Counter[str] = field(default_factory=Counter)
    job_ended_at: float | None = None
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    traces: MemoryTraces = field(default_factory=MemoryTraces)
    coordination: Coordination = field(default_factory=Coordination)
    alerts: Alerts = field(default_factory=Alerts)
    turns: dict[str, float] = field(default_factory=dict)
    backlog_turns: dict[str, float] = field(default_factory=dict)
    configurations: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    settling: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = Files(lambda: self.now)

    # Messages.

    def send(self, queue: str, body: Body, delay: float = 0.0, *, durable: bool = False) -> None:
        self.messages.append(Message(queue, body, self.now + delay, durable))

    def waiting(self, queue: str) -> list[Message]:
        """The messages that may be received now."""
        return [each for each in self.messages if each.queue == queue and each.due <= self.now]

    def patrol(self) -> None:
        """Messages for all that is due."""
        if any(at <= self.now for at in self._due("evaluate")):
            self.send("evaluate", Hint(RUN, tick=self.now))
        if any(at <= self.now for at in self._due("act")):
            self.send("act", Flush(RUN))

    def _due(self, queue: str) -> list[float]:
        item = self.coordination.items.get(RUN)
        times = [item and item.due_at] if queue == "evaluate" else [self.alerts.due.get(RUN)]
        return [at for at in times if at is not None]

    def next_time(self) -> float | None:
        """When something happens by itself; None if nothing does."""
        due = [*self._due("evaluate"), *self._due("act"), *(each.due for each in self.messages)]
        return min(due, default=None)

    # Invocations.

    def begin(self, *messages: Message, skew: float = 0.0) -> Invocation:
        """Receives messages of one queue, several only for evaluate; nothing is done yet."""
        self.messages = [each for each in self.messages if each not in messages]
        work = self._evaluate if messages[0].queue == "evaluate" else self._act
        invocation = Invocation(self, messages, skew, work)
        self.at_work.append(invocation)
        return invocation

    def resume(self, invocation: Invocation, calls: int = TO_THE_END) -> None:
        invocation.resume(calls)
        self._settle(invocation)

    def crash(self, invocation: Invocation) -> None:
        invocation.crash()
        self._settle(invocation)

    def pass_time(self, seconds: float) -> None:
        """Advance the time, and end invocations that run too long."""
        self.now += seconds
        for invocation in [each for each in self.at_work if each.ends < self.now]:
            self.crash(invocation)

    def _settle(self, invocation: Invocation) -> None:
        """Where an invocation has ended: its message comes back, unless all was done."""
        if invocation.outcome is None:
            return
        self.at_work.remove(invocation)
        if invocation.outcome == "done":
            return
        self.cut_off[invocation.queue] += 1
        if invocation.error is not None and not isinstance(invocation.error, _EXPECTED):
            raise invocation.error
        failed = invocation.outcome == "failed"
        delay = 15.0 if failed else VISIBILITY[invocation.queue]
        for at, message in enumerate(invocation.messages):
            if not failed or str(at) in invocation.failed:
                self.messages.append(replace(message, due=self.now + delay))

    def _evaluate(self, invocation: Invocation) -> None:
        ports = self._evaluation_ports(invocation)
        ends, owner = invocation.now() + SECONDS["evaluate"], f"invocation-{id(invocation)}"

        def handle(subject: Hint | JobEnded) -> None:
            if isinstance(subject, JobEnded):
                end_job(subject, ports)
            else:
                evaluate(subject, ports, owner=owner, ends=ends)

        bodies = {str(at): _encoded(each.body) for at, each in enumerate(invocation.messages)}
        failures = handle_batch(bodies, handle, lambda ids: ids, patience=TO_THE_END)
        invocation.failed = failures.ids
        if failures.errors:
            unexpected = [each for each in failures.errors if not isinstance(each, _EXPECTED)]
            raise [*unexpected, *failures.errors][0]

    def _act(self, invocation: Invocation) -> None:
        body = invocation.messages[0].body
        if isinstance(body, RunNews | Flush | Deliver):
            ends = invocation.now() + SECONDS["act"]
            react(body, self._alert_ports(invocation), ends=ends)

    def _evaluation_ports(self, invocation: Invocation) -> EvaluationPorts:
        port = invocation.port
        return EvaluationPorts(
            storage=lambda run: port("s3", self.files),
            checkpoints=port("s3", self.checkpoints),
            traces=port("s3", self.traces),
            coordination=port("dynamodb", self.coordination),
            publisher=AwsPublisher(
                AwsBus(port("events", self), "tocsin"),
                MetricSink(port("cloudwatch", Metrics())),
                invocation.now,
                job_metrics=False,
            ),
            hints=port("sqs", _Hints(self)),
            jobs=port("sagemaker", _Jobs(self)),
            default=self.watch,
            now=invocation.now,
            configurations=self.configurations,
            settling=self.settling,
            outages=(*AWS_ERRORS, OSError, NotPublished),
            is_denied=is_denied,
            turns=lambda owner: port("dynamodb", _Turns(self, self.backlog_turns)),
        )

    def _alert_ports(self, invocation: Invocation) -> AlertPorts:
        port, alerts = invocation.port, self.alerts

        def call(service: str, do: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args: invocation.call(service, lambda: do(*args))

        effects, lookups = alerts.effects, alerts.lookups
        return AlertPorts(
            groups=port("dynamodb", alerts),
            silences=port("dynamodb", alerts),
            checkpoints=KnownRuns(port("s3", self.checkpoints), invocation.now),
            timer=port("sqs", _Timer(self)),
            turns=port("dynamodb", _Turns(self, self.turns)),
            lookups=replace(lookups, describe_job=call("sagemaker", lookups.describe_job)),
            effects=replace(
                effects,
                reserve_stop=call("dynamodb", effects.reserve_stop),
                stop_job=call("sagemaker", effects.stop_job),
                publish=call("sns", effects.publish),
                post=call("webhook", alerts.post),
            ),
            put_events=call("events", alerts.events.extend),
            now=invocation.now,
        )

    # EventBridge.

    def put_events(self, Entries: Sequence[Mapping[str, str]]) -> dict[str, Any]:  # noqa: N803
        for entry in Entries:
            if entry["DetailType"] == "Tocsin Run News":
                self.send("act", msgspec.json.decode(entry["Detail"], type=RunNews), durable=True)
        return {"FailedEntryCount": 0, "Entries": [{"EventId": "1"} for _ in Entries]}

    # What came of it.

    def checkpoint(self) -> Checkpoint:
        return self.checkpoints.load(RUN).checkpoint

    def group(self) -> StoredGroup:
        return self.alerts.load(RUN)


@dataclass(frozen=True)
class _Hints:
    model: Model

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        hint = Hint(run, continues=why == CONTINUE, configures=why == COLLECTIONS_WRITTEN)
        self.model.send("evaluate", hint, delay)


@dataclass(frozen=True)
class _Timer:
    model: Model

    def flush(self, run: str, delay: float) -> None:
        self.model.send("act", Flush(run), delay)

    def deliver(self, run: str, waits: int = 0, delay: float = 0.0) -> None:
        self.model.send("act", Deliver(run, waits), delay)


@dataclass
class _Turns:
    """One invocation at a time."""

    model: Model
    taken: dict[str, float]

    def take(self, taker: str, until: float) -> bool:
        if any(each != taker and at > self.model.now for each, at in self.taken.items()):
            return False
        self.taken.clear()
        self.taken[taker] = until
        return True

    def give_back(self, taker: str) -> None:
        self.taken.pop(taker, None)


@dataclass(frozen=True)
class _Jobs:
    model: Model

    def describe(self, name: str, run: str) -> JobDescription | None:
        ended_at = self.model.job_ended_at
        over = ended_at is not None
        return JobDescription(outputs=(RUN,), ended_at=ended_at, arn="arn", is_over=over)

    def find(self, arn: str) -> JobDescription | None:
        return self.describe(arn, RUN)

    def may_write(self, arn: str, run: str) -> bool:
        return True

    def tagged_run(self, job: JobDescription) -> str:
        return ""
