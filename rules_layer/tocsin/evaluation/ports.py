"""The services that evaluation needs, as Protocols; implemented for AWS and in memory."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin.evaluation.baselines import Baselines
from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.trace import Trace
from tocsin.evaluation.trials import Trials
from tocsin.events import RunEvent
from tocsin.model import TrainingJobStatus
from tocsin.owners import owner_of
from tocsin.tensors import Storage, is_same_run, writes_to
from tocsin.watch import Watch


class CheckpointConflict(Exception):
    """The checkpoint is not the version that was read: somebody else committed."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint and the version to commit on; version None is a run that was never seen.

    unreadable: why what is stored cannot be read; then the checkpoint is empty.
    """

    checkpoint: Checkpoint
    version: str | None
    unreadable: str = ""


@dataclass(frozen=True)
class Lease:
    """The right of one invocation to work on a run for a while.

    hints: how many hints there were when it was taken or last read.
    attempts: how many invocations in a row have taken it without finishing, with this one.
    keys: the files that hints have named since a look last finished.
    due_at: when patrol looks at the run.
    outages: how many looks in a row have failed for an error of a service.
    suspect: the custom rule that was at work when an earlier invocation died, "" if none was.
    """

    run: str
    owner: str
    hints: int
    attempts: int
    keys: tuple[str, ...] = ()
    due_at: float | None = None
    outages: int = 0
    suspect: str = ""


@dataclass(frozen=True)
class Trouble:
    """The reason why a run is not evaluated now, and until when (seconds since the epoch)."""

    reason: str
    until: float


_PAUSES = (10.0, 60.0, 240.0, 600.0)


def pause_after(attempts: int) -> float:
    """For how many seconds a run makes room for others, after attempts that did not finish."""
    return _PAUSES[min(attempts, len(_PAUSES)) - 1] if attempts else 0.0


_SHORTEST, _LONGEST, _LONGEST_DENIED = 10.0, 300.0, 3600.0
_OUTAGES = 5  # in a row without a pause: most are over before


def pause_after_outages(outages: int, *, denied: bool) -> float:
    """For how many seconds a run pauses, after so many looks in a row that a service failed.

    What is ``denied`` stays so until somebody grants it; every other error passes by itself.
    """
    doublings = outages - 1 - (0 if denied else _OUTAGES)
    if doublings < 0:
        return 0.0
    longest = _LONGEST_DENIED if denied else _LONGEST
    return min(math.ldexp(_SHORTEST, min(doublings, 20)), longest)


class CheckpointStore(Protocol):
    def load(self, run: str) -> StoredCheckpoint: ...

    def save(self, checkpoint: Checkpoint, version: str | None) -> str:
        """Commit on ``version`` and return the new one.

        Raises CheckpointConflict, and CheckpointTooLarge.
        """

    def put_aside(self, run: str) -> None:
        """Keep a copy of what is stored for the run, so that a fault in it can be found."""


class TraceStore(Protocol):
    """Keeps the trace of each run. To lose one costs points of a picture and nothing else."""

    def load(self, run: str) -> Trace:
        """Empty if there is none, or none that can be read."""

    def save(self, run: str, trace: Trace) -> None: ...


class Coordination(Protocol):
    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        """Count a hint that something may be new, and keep its ``keys`` for the next look."""

    def take(
        self, run: str, owner: str, now: float, until: float, keys: Sequence[str] = ()
    ) -> Lease | None:
        """Count a hint and take the lease; None while another owner's lasts, or a pause.

        One more attempt is counted. After a second one that does not give the lease back, the run
        pauses for longer than ``until``.
        """

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        """Give the lease back, finished, if no hint came since ``lease.hints``.

        None: it is given back, or another owner has it. A lease: there are newer hints, look
        again. ``last`` gives it back in any case, because a further hint is on its way.
        The keys of the lease are forgotten: they have been looked at.
        ``due_at`` is when patrol should look at the run, None for never; ``attempts`` is the count
        that the next one to take it adds to.
        """

    def abandon(
        self,
        lease: Lease,
        *,
        attempts: int,
        until: float | None,
        outages: int = 0,
        trouble: str = "",
    ) -> None:
        """Give the lease back unfinished. Nobody takes it before ``until``, if that is given, and
        patrol looks at the run then. Its keys are kept. ``trouble`` is the reason, for people.
        """

    def trouble(self, run: str) -> Trouble | None:
        """Return why the last look at the run did not finish, if known, and it was not taken
        since.
        """

    def note(self, lease: Lease, rule: str) -> None:
        """Note which custom rule is at work, "" for none. A look that finishes removes the note."""

    def remember_job(self, job: str, run: str) -> None:
        """Remember that the run is the job's, so that events of the job find it."""

    def runs_of(self, job: str) -> Sequence[str]: ...


class Turns(Protocol):
    """Those of one owner, of whose runs with a backlog only so many are looked at at a time."""

    def take(self, taker: str, until: float) -> bool:
        """Take a turn until then (seconds since the epoch). Return False if there is none."""

    def give_back(self, taker: str) -> None:
        """Give back the turn of ``taker``, if it has one."""


class NoLimit:
    """Turns for everybody."""

    def take(self, taker: str, until: float) -> bool:
        return True

    def give_back(self, taker: str) -> None: ...


class Publisher(Protocol):
    def publish(self, events: Sequence[RunEvent]) -> None:
        """Events, then metrics. Raises if not all are accepted."""


class HintQueue(Protocol):
    def send(self, run: str, why: str, delay: float = 0.0) -> None:
        """One hint for the run, after ``delay`` seconds (at most 900)."""


@dataclass(frozen=True)
class JobDescription:
    """A SageMaker training job.

    rules: its DebugRuleConfigurations.
    profiler_rules: its ProfilerRuleConfigurations.
    ended_at: when it ended, if it has.
    outputs: the S3 paths that it may write runs to.
    arn: by which its tags are found.
    is_over: it has ended.
    machines: how many instances of each type it has.
    status: of a job that has ended.
    """

    rules: tuple[Mapping[str, Any], ...] = ()
    ended_at: float | None = None
    outputs: tuple[str, ...] = ()
    arn: str = ""
    profiler_rules: tuple[Mapping[str, Any], ...] = ()
    is_over: bool = False
    machines: Mapping[str, int] = field(default_factory=dict)
    status: TrainingJobStatus | None = None


class JobDirectory(Protocol):
    def describe(self, name: str, run: str) -> JobDescription | None:
        """Return the job of that name, in an account that may write the run (URL); None where
        SageMaker has none.
        """

    def find(self, arn: str) -> JobDescription | None:
        """Return the job with that ARN; None where SageMaker has none."""

    def may_write(self, arn: str, run: str) -> bool:
        """Return whether the account of the job with that ARN may write the run (URL)."""

    def tagged_run(self, job: JobDescription) -> str:
        """Return the run that the job's tag names; "" without one."""


def is_own(job: JobDescription, run: str, jobs: JobDirectory) -> bool:
    """Return whether the run is the job's, by its paths or its tag. Anybody can name a folder after
    it, and another account can name any path.
    """
    if not jobs.may_write(job.arn, run):
        return False
    if any(writes_to(output, run) for output in job.outputs):
        return True
    return is_same_run(jobs.tagged_run(job), run)


@dataclass(frozen=True)
class EvaluationPorts:
    """All that evaluation reaches the outside by.

    storage: opens a run's files, by its URL.
    default: the watch file of the deployment.
    now: the clock, seconds since the epoch.
    trials: kept in the process, for rules that read a run as a whole.
    baselines: kept in the process, for rules that compare a run with them.
    configurations: by run, what its collections files and ``watch.json`` said last, with the
        number of their notifications then; kept in the process.
    settling: by run, when a look for its collections files was last asked for; kept in the process.
    outages: errors of the services, which say nothing about a run.
    is_denied: whether such an error stays until somebody grants a permission.
    owner: the owner of a run (URL).
    turns: those of an owner.
    prices: US dollars per hour, by type of instance.
    """

    storage: Callable[[str], Storage]
    checkpoints: CheckpointStore
    traces: TraceStore | None
    coordination: Coordination
    publisher: Publisher
    hints: HintQueue
    jobs: JobDirectory
    default: Watch
    now: Callable[[], float]
    trials: Trials = field(default_factory=Trials)
    baselines: Baselines = field(default_factory=Baselines)
    configurations: OrderedDict[str, tuple[int, Any]] = field(default_factory=OrderedDict)
    settling: dict[str, float] = field(default_factory=dict)
    outages: tuple[type[Exception], ...] = (OSError,)
    is_denied: Callable[[BaseException], bool] = lambda error: isinstance(error, PermissionError)
    owner: Callable[[str], str] = owner_of
    turns: Callable[[str], Turns] = lambda owner: NoLimit()
    prices: Mapping[str, float] = field(default_factory=dict)
