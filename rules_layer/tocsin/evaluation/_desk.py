"""The run at hand while it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tocsin.evaluation._checkpoint import Checkpoint
from tocsin.evaluation._configuration import Problem
from tocsin.evaluation._ports import World
from tocsin.events import ConfigurationRefused, dedup_id
from tocsin.model import RuleStatus
from tocsin.tensors import Storage, job_name

_MOST_REFUSED = 100


@dataclass(frozen=True)
class Hint:
    """Something may be new in a run. ``keys`` are index files said to have been written, relative
    to the run; ``tick`` is the present time, where rules should be told it.
    """

    run: str
    keys: tuple[str, ...] = ()
    tick: float | None = None


@dataclass
class Report:
    """What one look has done, for telemetry and the log."""

    steps: int = 0
    bytes_read: int = 0
    lag: float = 0.0
    refused: int = 0
    late: int = 0
    missing_workers: int = 0
    lost_steps: int = 0
    errors: int = 0
    log: list[str] = field(default_factory=list)


@dataclass
class Desk:
    """The run at hand: its checkpoint as it grows, and the version to commit on."""

    world: World
    storage: Storage
    checkpoint: Checkpoint
    version: str | None
    report: Report
    saved: Checkpoint | None = None

    def commit(self) -> None:
        """Remember, then publish; that it is published is remembered with the next commit."""
        if self.checkpoint == self.saved:
            return
        self.version = self.world.checkpoints.save(self.checkpoint, self.version)
        self.saved = self.checkpoint
        if self.checkpoint.unpublished:
            self.world.publisher.publish(self.checkpoint.unpublished)
            statuses = [change.rule_evaluation_status for change in self.checkpoint.outbox]
            self.report.errors += statuses.count(RuleStatus.ERROR)
            self.checkpoint = self.checkpoint.published()

    @property
    def is_uncommitted(self) -> bool:
        """Whether there is something to remember that is not remembered yet."""
        return self.checkpoint != self.saved

    def refuse(self, key: str, reason: str) -> None:
        """Count a file that cannot be used and say so, once."""
        refused = self.checkpoint.refused
        if key in refused or len(refused) >= _MOST_REFUSED:
            return
        self.report.refused += 1
        self.report.log.append(f"{self.checkpoint.run}: refused {key}: {reason}")
        self.checkpoint = replace(
            self.checkpoint,
            refused={**refused, key: reason},
            refused_files=self.checkpoint.refused_files + 1,
        )

    def refuse_parts(self, problems: Sequence[Problem]) -> None:
        """Tell of what in the run's configuration cannot be used, once while it is so."""
        checkpoint = self.checkpoint
        new = [problem for problem in problems if problem not in checkpoint.problems]
        self.report.refused += len(new)
        self.report.log += [f"{checkpoint.run}: refused {where}: {why}" for where, why in new]
        run, start = checkpoint.run, checkpoint.run_id
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
        self.checkpoint = replace(
            checkpoint,
            problems=tuple(problems),
            refusals=(*checkpoint.refusals, *refusals),
        )
