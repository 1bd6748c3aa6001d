"""The world in memory: for ``tocsin check``, and for tests of what evaluation does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tocsin.evaluation._checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from tocsin.evaluation._ports import Conflict, Job, Lease, Stored, World
from tocsin.events import RunEvent
from tocsin.tensors import Storage, open_storage
from tocsin.watch import Watch


@dataclass
class MemoryCheckpoints:
    """Checkpoints as S3 keeps them: encoded, each commit on the version that was read."""

    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)

    def load(self, run: str) -> Stored:
        if run not in self.objects:
            return Stored(Checkpoint(run), None)
        data, version = self.objects[run]
        return Stored(decode_checkpoint(data), str(version))

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        _, present = self.objects.get(checkpoint.run, (b"", 0))
        if (version or "0") != str(present):
            raise Conflict(checkpoint.run)
        self.objects[checkpoint.run] = (encode_checkpoint(checkpoint), present + 1)
        return str(present + 1)


@dataclass(frozen=True)
class _Item:
    hints: int = 0
    done: int = 0
    owner: str | None = None
    until: float = 0.0
    attempts: int = 0
    due_at: float | None = None
    keys: tuple[str, ...] = ()


@dataclass
class MemoryCoordination:
    """The coordination item of each run, changed atomically as DynamoDB does it."""

    items: dict[str, _Item] = field(default_factory=dict)
    jobs: dict[str, set[str]] = field(default_factory=dict)

    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        item = self._item(run)
        named = tuple(sorted({*item.keys, *keys}))
        self.items[run] = replace(item, hints=item.hints + 1, keys=named)

    def take(self, run: str, owner: str, now: float, until: float) -> Lease | None:
        item = self._item(run)
        if item.owner is not None and item.until >= now:
            return None
        taken = replace(item, owner=owner, until=until, attempts=item.attempts + 1, due_at=until)
        self.items[run] = replace(taken, keys=())
        return Lease(run, owner, taken.hints, taken.attempts, taken.keys)

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        item = self._item(lease.run)
        if item.owner != lease.owner:
            return None
        if item.hints != lease.hints and not last:
            self.items[lease.run] = replace(item, keys=())
            return replace(lease, hints=item.hints, keys=item.keys)
        self.items[lease.run] = _Item(
            item.hints, lease.hints, attempts=attempts, due_at=due_at, keys=item.keys
        )
        return None

    def abandon(self, lease: Lease) -> None:
        item = self._item(lease.run)
        if item.owner == lease.owner:
            self.items[lease.run] = replace(item, owner=None, until=0.0)

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

    jobs: Mapping[str, Job] = field(default_factory=dict)

    def describe(self, name: str) -> Job | None:
        return self.jobs.get(name)


def memory_world(storage: Storage, now: Callable[[], float]) -> World:
    """A world in which runs' files are real, one's in ``storage``, and all else is in memory."""
    return World(
        storage=lambda run: storage if run == storage.url else open_storage(run),
        checkpoints=MemoryCheckpoints(),
        coordination=MemoryCoordination(),
        publisher=MemoryPublisher(),
        hints=MemoryHints(),
        jobs=MemoryJobs(),
        default=Watch(),
        now=now,
    )
