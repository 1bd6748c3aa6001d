"""Evaluation without AWS: all ports in memory, for ``tocsin check`` and for tests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.checkpoint_format import decode_checkpoint, encode_checkpoint
from tocsin.evaluation.folding import OnVerdict, ignore
from tocsin.evaluation.messages import Hint
from tocsin.evaluation.ports import (
    CheckpointConflict,
    EvaluationPorts,
    JobDescription,
    Lease,
    StoredCheckpoint,
    Trouble,
    pause_after,
)
from tocsin.evaluation.reconciliation import reconcile
from tocsin.evaluation.trace import MOST_POINTS, Trace
from tocsin.evaluation.unit_of_work import EvaluationReport
from tocsin.events import RunEvent
from tocsin.profile import open_run
from tocsin.tensors import Storage
from tocsin.watch import Watch


@dataclass
class MemoryCheckpoints:
    """Checkpoints as S3 keeps them: encoded, each commit on the version that was read."""

    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def load(self, run: str) -> StoredCheckpoint:
        if run not in self.objects:
            return StoredCheckpoint(Checkpoint(run), None)
        data, version = self.objects[run]
        try:
            return StoredCheckpoint(decode_checkpoint(data), str(version))
        except ValueError as error:
            return StoredCheckpoint(Checkpoint(run), str(version), str(error))

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        _, present = self.objects.get(checkpoint.run, (b"", 0))
        if (version or "0") != str(present):
            raise CheckpointConflict(checkpoint.run)
        self.objects[checkpoint.run] = (encode_checkpoint(checkpoint), present + 1)
        return str(present + 1)

    def put_aside(self, run: str) -> None:
        self.objects[f"{run}.unreadable"] = self.objects[run]


@dataclass
class MemoryTraces:
    """The trace of each run."""

    traces: dict[str, Trace] = field(default_factory=dict)

    def load(self, run: str) -> Trace:
        return self.traces.get(run, Trace(MOST_POINTS))

    def save(self, run: str, trace: Trace) -> None:
        self.traces[run] = trace


@dataclass(frozen=True)
class _Item:
    hints: int = 0
    owner: str | None = None
    until: float = 0.0
    attempts: int = 0
    due_at: float | None = None
    keys: tuple[str, ...] = ()
    outages: int = 0
    trouble: str = ""
    at_work: str = ""


@dataclass
class MemoryCoordination:
    """The coordination item of each run, changed atomically as DynamoDB does it."""

    items: dict[str, _Item] = field(default_factory=dict)
    jobs: dict[str, set[str]] = field(default_factory=dict)

    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        item = self._item(run)
        named = tuple(sorted({*item.keys, *keys}))
        self.items[run] = replace(item, hints=item.hints + 1, keys=named)

    def take(
        self, run: str, owner: str, now: float, until: float, keys: Sequence[str] = ()
    ) -> Lease | None:
        self.hint(run, keys)
        item = self._item(run)
        if item.owner is not None and item.until >= now:
            return None
        attempts, due_at = item.attempts + 1, item.due_at
        if due_at is None or attempts > 1:
            until += pause_after(attempts - 1)
            due_at = until
        self.items[run] = replace(item, owner=owner, until=until, attempts=attempts, due_at=due_at)
        return Lease(
            run, owner, item.hints, attempts, item.keys, due_at, item.outages, item.at_work
        )

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        item = self._item(lease.run)
        if item.owner != lease.owner:
            return None
        if item.hints != lease.hints and not last:
            return replace(lease, hints=item.hints, keys=item.keys, suspect="")
        keys = tuple(key for key in item.keys if key not in lease.keys)
        self.items[lease.run] = _Item(item.hints, attempts=attempts, due_at=due_at, keys=keys)
        return None

    def abandon(
        self,
        lease: Lease,
        *,
        attempts: int,
        until: float | None,
        outages: int = 0,
        trouble: str = "",
    ) -> None:
        item = self._item(lease.run)
        if item.owner != lease.owner:
            return
        item = replace(item, attempts=attempts, outages=outages, trouble=trouble)
        if until is None or outages:  # a service failed, and not the rule that was at work
            item = replace(item, at_work="")
        if until is None:
            self.items[lease.run] = replace(item, owner=None)
        else:
            self.items[lease.run] = replace(item, until=until, due_at=until)

    def trouble(self, run: str) -> Trouble | None:
        item = self._item(run)
        return Trouble(item.trouble, item.until) if item.trouble else None

    def note(self, lease: Lease, rule: str) -> None:
        item = self._item(lease.run)
        if item.owner == lease.owner:
            self.items[lease.run] = replace(item, at_work=rule)

    def remember_job(self, job: str, run: str) -> None:
        self.jobs.setdefault(job, set()).add(run)

    def runs_of(self, job: str) -> Sequence[str]:
        return sorted(self.jobs.get(job, ()))

    def _item(self, run: str) -> _Item:
        return self.items.get(run, _Item())


@dataclass
class MemoryPublisher:
    """Keeps what was published."""

    published: list[RunEvent] = field(default_factory=list)

    def publish(self, events: Sequence[RunEvent]) -> None:
        self.published += events


@dataclass
class MemoryHints:
    """Keeps the hints that were sent: run, why, delay in seconds."""

    sent: list[tuple[str, str, float]] = field(default_factory=list)

    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        self.sent.append((run, why, delay))


@dataclass(frozen=True)
class MemoryJobs:
    """SageMaker's jobs by name."""

    jobs: Mapping[str, JobDescription] = field(default_factory=dict)

    def describe(self, name: str, run: str) -> JobDescription | None:
        return self.jobs.get(name)

    def find(self, arn: str) -> JobDescription | None:
        return next((job for job in self.jobs.values() if job.arn == arn), None)

    def may_write(self, arn: str, run: str) -> bool:
        return True

    def tagged_run(self, job: JobDescription) -> str:
        return ""


def memory_ports(
    storage: Storage, now: Callable[[], float], others: Sequence[Storage] = ()
) -> EvaluationPorts:
    """Ports with real files, those of one run in ``storage`` and of ``others`` that are open, and
    all else in memory, without a trace.
    """
    opened = {each.url: each for each in (*others, storage)}
    return EvaluationPorts(
        storage=lambda run: opened[run] if run in opened else open_run(run),
        checkpoints=MemoryCheckpoints(),
        traces=None,
        coordination=MemoryCoordination(),
        publisher=MemoryPublisher(),
        hints=MemoryHints(),
        jobs=MemoryJobs(),
        default=Watch(),
        now=now,
    )


def check(
    storage: Storage,
    watch: Watch | None = None,
    *,
    now: Callable[[], float] = time.time,
    tick: bool = False,
    on_step: Callable[[int], None] = lambda step: None,
    on_verdict: OnVerdict = ignore,
    others: Sequence[Storage] = (),
) -> tuple[Checkpoint, EvaluationReport]:
    """Evaluate a run from its first step on, with the same engine as in Lambda.

    ``watch`` takes the place of the run's own ``watch.json``; without either, the rules of
    profile recommended watch. Steps that may still be incomplete are left out, as in Lambda.
    With ``tick`` the rules that read the time get the present one, as in Lambda each few minutes:
    a run without an end marker may have stalled. ``on_verdict`` gets the verdict of each rule at
    each step: a measure against its limit, where the rule has one. ``others`` are runs that rules
    compare with, where these are open already, as a history of another tool is.
    """
    ports, report = memory_ports(storage, now, others), EvaluationReport()
    hint = Hint(storage.url, tick=now() if tick else None)
    reconcile(
        hint,
        ports,
        report,
        deadline=math.inf,
        watch=watch,
        on_step=on_step,
        on_verdict=on_verdict,
    )
    return ports.checkpoints.load(storage.url).checkpoint, report
