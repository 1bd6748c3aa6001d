"""Alerts, and a world in memory that can break at any call and is put together again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from tocsin.actions import Effects, JobToStop, Lookups, Relaunch, StopHeld, TopicMessage
from tocsin.alerts import (
    ActReport,
    AlertGroup,
    AlertPorts,
    CommitConflict,
    Deliver,
    Flush,
    Incoming,
    Known,
    Relaunched,
    StoredGroup,
    TryAgain,
    decode_group,
    encode_group,
    react,
)
from tocsin.events import ActionTaken, RunNews, RunSummary, StatusChange
from tocsin.watch import Silence

RUN = "s3://captures/jobs/j1"
EPOCH = 1_800_000_000.0


def alert(rule: str = "A", *, firing: bool = True, **fields: Any) -> StatusChange:
    """An alert with fields as in the event; unless given its ids follow from the rule."""
    status = "IssuesFound" if firing else "InProgress"
    detail = {
        "TrainingJobName": "j1",
        "Run": RUN,
        "RuleConfigurationName": rule,
        "Rule": rule,
        "RuleEvaluationStatus": status,
        "PreviousStatus": "InProgress" if firing else "IssuesFound",
        "DedupId": f"{rule}-{status}-{fields.get('Sequence', 0)}",
        "Actions": ["email"],
        "RunId": "r1",
        **fields,
    }
    return msgspec.convert(detail, StatusChange)


class Crash(BaseException):
    """The invocation is cut off."""


@dataclass
class Fake:
    """AWS in memory. ``crash_at`` cuts the invocation off before (n) or after (n + 0.5) its n-th
    call of the outside world; ``broken`` are calls that fail.
    """

    now: float = EPOCH
    crash_at: float | None = None
    calls: int = 0
    broken: dict[str, Exception] = field(default_factory=dict)
    bodies: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    due: dict[str, float | None] = field(default_factory=dict)
    known_runs: dict[str, Known] = field(default_factory=dict)
    silenced: list[Silence] = field(default_factory=list)
    queue: deque[tuple[float, Incoming]] = field(default_factory=deque)
    handed_on: deque[Deliver] = field(default_factory=deque)
    dead: list[Incoming] = field(default_factory=list)
    published: list[TopicMessage] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    metrics: list[tuple[str, float]] = field(default_factory=list)
    posted: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[ActionTaken] = field(default_factory=list)
    job: JobToStop | None = field(
        default_factory=lambda: JobToStop(
            "arn:aws:sagemaker:::training-job/j1", "InProgress", (RUN,)
        )
    )
    numbers: dict[str, int] = field(default_factory=dict)
    guard: StopHeld | None = None
    turn: bool = True
    relaunch_roles: frozenset[str] = frozenset()
    relaunched: list[Relaunch] = field(default_factory=list)
    steal: Callable[[], None] | None = None

    @property
    def ports(self) -> AlertPorts:
        return AlertPorts(
            groups=self,
            silences=self,
            checkpoints=self,
            timer=self,
            turns=self,
            lookups=self.lookups,
            effects=self.effects,
            put_events=lambda events: self._does("event", lambda: self.events.extend(events)),
            now=lambda: self.now,
        )

    @property
    def lookups(self) -> Lookups:
        return Lookups(
            describe_job=lambda name, run: self.job,
            job_tags=lambda arn: {},
            refuses=lambda kind, recipient: None,
            recent=lambda alert: (),
            now=lambda: datetime.fromtimestamp(self.now, UTC),
            broadcast={"email": 1, "sms": 1},
            relaunch_roles=self.relaunch_roles,
        )

    @property
    def effects(self) -> Effects:
        return Effects(
            reserve_stop=lambda run, by: self.guard,
            stop_job=lambda arn: self._does("stop", lambda: self._stop(arn.rpartition("/")[2])),
            relaunch=lambda plan: self._does("relaunch", lambda: self.relaunched.append(plan)),
            write=lambda run, key, data: self._does("write", lambda: self.stopped.append(key)),
            subscribe=lambda run, protocol, endpoint: None,
            reserve=lambda kind, run, count: None,
            release=lambda kind, run, count: None,
            publish=lambda message: self._does("publish", lambda: self.published.append(message)),
            post=lambda name, event, key: self._does("post", lambda: self.posted.append(event)),
            put_metric=lambda name, value, labels: self._does(
                "metric", lambda: self.metrics.append((labels["Rule"], value))
            ),
        )

    def load(self, run: str) -> StoredGroup:
        if run not in self.bodies:
            return StoredGroup(AlertGroup(run), None)
        body, version = self.bodies[run]
        return StoredGroup(decode_group(body), version)

    def save(self, group: AlertGroup, version: int | None) -> int:
        if self.steal is not None:
            steal, self.steal = self.steal, None
            steal()
        if (version or 0) != self.bodies.get(group.run, (b"", 0))[1]:
            raise CommitConflict(group.run)
        new = (version or 0) + 1

        def keep() -> None:
            self.bodies[group.run] = encode_group(group), new
            self.due[group.run] = group.due_at

        self._does("save", keep)
        return new

    def active(self, now: float) -> Sequence[Silence]:
        return [each for each in self.silenced if now < each.until.timestamp()]

    def known(self, run: str) -> Known | None:
        return self.known_runs.get(run)

    def flush(self, run: str, delay: float) -> None:
        self._does("flush", lambda: self.queue.append((self.now + delay, Flush(run))))

    def deliver(self, run: str, waits: int = 0, delay: float = 0.0) -> None:
        message = Deliver(run, waits)
        add = (lambda: self.queue.append((self.now + delay, message))) if delay else None
        self._does("deliver", add or (lambda: self.handed_on.append(message)))

    def take(self, owner: str, until: float) -> bool:
        return self.turn

    def give_back(self, owner: str) -> None:
        pass

    def group(self, run: str = RUN) -> AlertGroup:
        return self.load(run).group

    def commit(self, message: Incoming) -> Incoming:
        """The message as ``evaluate`` publishes it: what the run's checkpoint knows, numbered."""
        if isinstance(message, Flush | Deliver | Relaunched | RunNews):
            return message
        known = self.known_runs.get(message.run, Known())
        if isinstance(message, RunSummary):
            newest = max(known.sequence, message.sequence)
            self.known_runs[message.run] = Known(known.alerts, known.rules, newest)
            return message
        if not message.sequence:
            number = self.numbers.setdefault(message.dedup_id, known.sequence + 1)
            message = msgspec.structs.replace(message, sequence=number)
        last = {each.rule_configuration_name: each for each in known.alerts}
        rule = message.rule_configuration_name
        removed = message.withdrawn and rule not in known.rules and known.rules
        if not removed and (rule not in last or last[rule].sequence < message.sequence):
            last[rule] = message
        rules = known.rules if removed else known.rules | {rule}
        newest = max(known.sequence, message.sequence)
        self.known_runs[message.run] = Known(tuple(last.values()), rules, newest)
        return message

    def react(self, message: Incoming) -> ActReport:
        """One invocation, and those for what it hands on; what they raise is the test's."""
        report = self.invoke(self.commit(message))
        while self.handed_on:
            more = self.invoke(self.handed_on.popleft())
            report = ActReport(
                report.sent + more.sent,
                report.held + more.held,
                report.failed + more.failed,
                report.guarded + more.guarded,
                [*report.log, *more.log],
            )
        return report

    def invoke(self, message: Incoming) -> ActReport:
        return react(message, self.ports, ends=self.now + 30)

    def receive(self, *messages: Incoming) -> None:
        """Delivers each message as SQS would: one that fails comes back, five times in all."""
        for message in messages:
            for _ in range(5):
                try:
                    self.react(message)
                    break
                except (Crash, TryAgain):
                    self.now += 180
            else:
                self.dead.append(message)

    def pass_time(self, seconds: float) -> None:
        """Time passes: delayed messages arrive, and patrol finds what is due a minute later."""
        end = self.now + seconds
        for _ in range(1000):
            patrol = [(at + 60, Flush(run)) for run, at in self.due.items() if at is not None]
            at, message = min(
                (*self.queue, *patrol), key=lambda due: due[0], default=(end + 1, None)
            )
            if message is None or at > end:
                self.now = max(self.now, end)
                return
            if (at, message) in self.queue:
                self.queue.remove((at, message))
            self.now = max(self.now, at)
            self.receive(message)
        raise AssertionError("something is due again and again")

    def _stop(self, name: str) -> None:
        self.stopped.append(name)
        assert self.job is not None
        self.job = replace(self.job, status="Stopping")

    def _does(self, name: str, do: Callable[[], None]) -> None:
        at, self.calls = self.calls, self.calls + 1
        if self.crash_at == at:
            raise Crash
        if name in self.broken:
            raise self.broken[name]
        do()
        if self.crash_at == at + 0.5:
            raise Crash
