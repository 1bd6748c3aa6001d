"""The unit of work: one run while it is looked at, and the only writer of its checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tocsin.evaluation.bounds import BoundedFiles
from tocsin.evaluation.checkpoint import Checkpoint
from tocsin.evaluation.checkpoint_format import CheckpointTooLarge, smaller
from tocsin.evaluation.ports import EvaluationPorts
from tocsin.evaluation.trace import Point
from tocsin.events import (
    CHECKPOINTS_UNREADABLE,
    EVALUATION_LAG,
    RULE_ERRORS,
    RUNS_NOT_WATCHED,
    STEPS_EVALUATED,
    ConfigurationRefused,
    dedup_id,
)
from tocsin.model import RuleStatus
from tocsin.tensors import job_name

_MOST_REFUSED = 100  # files remembered
_MOST_POINTS = 1000  # of the trace, in a checkpoint

BEGUN_AGAIN = "evaluated again from the run's start: its checkpoint cannot be read"

Unusable = tuple[str, str]
"""A part of a run's configuration that cannot be used: where it stands, and why."""


@dataclass
class EvaluationReport:
    """The figures of one invocation, for telemetry, and its lines for the log."""

    steps: int = 0
    bytes_read: int = 0
    lag: float = 0.0
    refused: int = 0
    late: int = 0
    missing_workers: int = 0
    lost_steps: int = 0
    errors: int = 0
    unreadable: int = 0
    unwatched: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def metrics(self) -> list[tuple[str, str, float]]:
        """The name, CloudWatch unit and value of each metric. Without a step there is no lag."""
        counts = {
            STEPS_EVALUATED: self.steps,
            "RefusedFiles": self.refused,
            "LateIndexFiles": self.late,
            "MissingWorkers": self.missing_workers,
            "LostSteps": self.lost_steps,
            RULE_ERRORS: self.errors,
            CHECKPOINTS_UNREADABLE: self.unreadable,
            RUNS_NOT_WATCHED: self.unwatched,
        }
        lag = [(EVALUATION_LAG, "Milliseconds", 1000 * self.lag)] if self.steps else []
        bytes_read = ("BytesRead", "Bytes", self.bytes_read)
        return [*((name, "Count", count) for name, count in counts.items()), bytes_read, *lag]


class UnitOfWork:
    """Gathers changes of a run's checkpoint by ``replace``; ``commit`` stores and publishes them.

    Each commit is made on the version that was read, so that two invocations never write over
    each other's work. ``is_first_look``: nothing that can be read was ever committed for the run.
    ``files``: the run's, for what comes before a step; they raise OutOfTime from ``until`` on.
    """

    def __init__(
        self,
        ports: EvaluationPorts,
        report: EvaluationReport,
        checkpoint: Checkpoint,
        version: str | None,
        until: float = math.inf,
    ) -> None:
        self.ports = ports
        self.report = report
        self.storage = ports.storage(checkpoint.run)
        self.files = BoundedFiles(self.storage, until, ports.now)
        self._checkpoint = self._committed = checkpoint
        self._points: list[Point] = []
        self._version = version
        self.is_first_look = version is None

    @classmethod
    def begin(
        cls, run: str, ports: EvaluationPorts, report: EvaluationReport, until: float = math.inf
    ) -> UnitOfWork:
        """Return the run as it was left; what a crash left unpublished is published first.

        One whose checkpoint cannot be read begins again; its changes are numbered above all that
        there were.
        """
        stored = ports.checkpoints.load(run)
        work = cls(ports, report, stored.checkpoint, stored.version, until)
        if stored.unreadable:
            ports.checkpoints.put_aside(run)
            report.unreadable += 1
            report.log.append(f"{run}: evaluated again from its start: {stored.unreadable}")
            work.is_first_look = True
            work.replace(replace(stored.checkpoint, note=BEGUN_AGAIN, sequence=int(ports.now())))
        work._publish()
        return work

    @property
    def checkpoint(self) -> Checkpoint:
        return self._checkpoint

    @property
    def is_uncommitted(self) -> bool:
        """Return whether there is something to remember that is not remembered yet."""
        return bool(self._points) or self._checkpoint != self._committed

    def replace(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is this one from now on; it is stored by the next commit."""
        self._checkpoint = checkpoint

    @property
    def is_traced(self) -> bool:
        return self.ports.traces is not None

    def trace(self, points: Iterable[Point]) -> None:
        """Add points to the trace; the next commit stores them."""
        self._points += points

    def commit(self) -> None:
        """Store, then publish; that it is published is stored by the next commit.

        Raises CheckpointConflict; then nothing of the uncommitted work has been published.
        """
        if not self.is_uncommitted:
            return
        if self._points:
            points = (*self._checkpoint.points, *self._points)
            self.replace(replace(self._checkpoint, points=points))
            self._points.clear()
        while True:
            try:
                self._version = self.ports.checkpoints.save(self._checkpoint, self._version)
                break
            except CheckpointTooLarge as error:
                self.report.log.append(f"{self._checkpoint.run}: {error}")
                self.replace(smaller(self._checkpoint))
        self.is_first_look = False
        self._committed = self._checkpoint
        statuses = [change.rule_evaluation_status for change in self._checkpoint.outbox]
        self._publish()
        self._keep_trace()
        self.report.errors += statuses.count(RuleStatus.ERROR)

    def _publish(self) -> None:
        if self._checkpoint.unpublished:
            self.ports.publisher.publish(self._checkpoint.unpublished)
            self.replace(self._checkpoint.published())

    def _keep_trace(self) -> None:
        """Move points from the checkpoint to the run's trace, when there are many.

        The next commit stores that they are there. After a crash before it they are added again,
        which changes nothing. A trace that cannot be written costs these points.
        """
        run, points, traces = self._checkpoint.run, self._checkpoint.points, self.ports.traces
        if traces is None or len(points) < _MOST_POINTS:
            return
        try:
            trace = traces.load(run)
            trace.extend(points)
            trace.keep(self._checkpoint.rules)
            traces.save(run, trace)
        except self.ports.outages as error:
            self.report.log.append(f"{run}: {len(points)} points of the trace are lost: {error}")
        self.replace(replace(self._checkpoint, points=()))

    def refuse_file(self, key: str, reason: str) -> None:
        """Count a file that cannot be used, and log it once."""
        before = self._checkpoint
        if key in before.refused or len(before.refused) >= _MOST_REFUSED:
            return
        self.report.refused += 1
        self.report.log.append(f"{before.run}: refused {key}: {reason}")
        refused = {**before.refused, key: reason}
        self.replace(replace(before, refused=refused, refused_files=before.refused_files + 1))

    def refuse_parts(self, problems: Sequence[Unusable]) -> None:
        """Publish which parts of the configuration cannot be used, each once while it is so."""
        before = self._checkpoint
        new = [problem for problem in problems if problem not in before.problems]
        self.report.refused += len(new)
        self.report.log += [f"{before.run}: refused {where}: {why}" for where, why in new]
        run, start = before.run, before.run_id
        refusals = [
            ConfigurationRefused(
                training_job_name=job_name(run),
                run=run,
                run_id=start,
                where=where,
                detail=why,
                dedup_id=dedup_id(run, start, "refusal", where, why),
            )
            for where, why in new
        ]
        self.replace(
            replace(before, problems=tuple(problems), refusals=(*before.refusals, *refusals))
        )
