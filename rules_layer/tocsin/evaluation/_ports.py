"""What evaluation needs of the world, given from outside; AWS and in-memory ones exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._trials import Trials
from tocsin.events import RunEvent
from tocsin.tensors import Storage
from tocsin.watch import Watch


class Conflict(Exception):
    """The checkpoint is not the version that was read: somebody else committed."""


@dataclass(frozen=True)
class Stored:
    """A checkpoint and the version to commit on; a version of None is a run never seen."""

    checkpoint: Checkpoint
    version: str | None


@dataclass(frozen=True)
class Lease:
    """A run is this invocation's for a while. ``hints`` is how many there were when it was taken
    or last read, ``attempts`` how many takers in a row, this one included, have not finished;
    ``keys`` are the files that hints since the last look have named.
    """

    run: str
    owner: str
    hints: int
    attempts: int
    keys: tuple[str, ...] = ()


class CheckpointStore(Protocol):
    def load(self, run: str) -> Stored: ...

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        """Commit on ``version`` and return the new one. Raises Conflict."""


class Coordination(Protocol):
    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        """Count that something may be new; ``keys`` are for whoever looks next."""

    def take(self, run: str, owner: str, now: float, until: float) -> Lease | None:
        """The lease and one more attempt, unless somebody else's is running until after now."""

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        """Give the lease back, finished, if no hint came since ``lease.hints``.

        None: it is given back, or was lost to somebody else. A lease: there are newer hints, go
        round again. ``last`` gives it back in any case, because a further hint is on its way.
        ``due_at`` is when patrol should look at the run, None for never; ``attempts`` what the
        next taker counts on from.
        """

    def abandon(self, lease: Lease) -> None:
        """Give the lease back unfinished, so that a retry can take it at once."""

    def remember_job(self, job: str, run: str) -> None:
        """So that what SageMaker says of the job finds the run."""

    def runs_of(self, job: str) -> Sequence[str]: ...


class Publisher(Protocol):
    def publish(self, events: Sequence[RunEvent]) -> None:
        """Events, then metrics. Raises if not all are accepted."""


class HintQueue(Protocol):
    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        """One hint for the run, after ``delay`` seconds (at most 900)."""


@dataclass(frozen=True)
class Job:
    """A SageMaker training job: its DebugRuleConfigurations, and when it was over, if it is."""

    rules: tuple[Mapping[str, Any], ...] = ()
    ended_at: float | None = None


class Jobs(Protocol):
    def describe(self, name: str) -> Job | None:
        """The job of that name; None where SageMaker has none."""


@dataclass(frozen=True)
class World:
    """All of the above, a run's files, the deployed configuration, the clock (seconds since the
    epoch), and what is remembered of runs that rules read as a whole.
    """

    storage: Callable[[str], Storage]
    checkpoints: CheckpointStore
    coordination: Coordination
    publisher: Publisher
    hints: HintQueue
    jobs: Jobs
    default: Watch
    now: Callable[[], float]
    trials: Trials = field(default_factory=Trials)
