"""What the rules say of each run, by the same engine as in Lambda."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.causes import Finding, causes_first
from tocsin.evaluation import check
from tocsin.evaluation.checkpoint import RuleRecord
from tocsin.model import RuleStatus, Severity
from tocsin.rules import RECOMMENDED, SAGEMAKER
from tocsin.tensors import open_storage
from tocsin.watch import Watch

from benchmarks.detection.progress import work
from benchmarks.detection.runs import Run

PROFILES = (RECOMMENDED, SAGEMAKER)


@dataclass(frozen=True)
class Alarm:
    """A rule that fired, and the share of the run at which it did. One that is ``resolved`` was
    taken back before the end."""

    rule: str
    severity: str
    step: int
    share: float
    tensor: str | None
    detail: str
    resolved: bool = False

    @property
    def counts(self) -> bool:
        return self.severity != Severity.INFO.value and not self.resolved


@dataclass(frozen=True)
class Evaluation:
    """What a profile's rules said of a run of so many ``steps``. ``failed`` ended in an error."""

    steps: int
    alarms: tuple[Alarm, ...]
    failed: tuple[str, ...]

    @property
    def first(self) -> Alarm | None:
        """The first alarm of those that count."""
        return min((a for a in self.alarms if a.counts), key=lambda a: a.step, default=None)

    @property
    def lead(self) -> Alarm | None:
        """The finding that people read first, if there is an alarm."""
        standing = {alarm.rule: alarm for alarm in self.alarms if not alarm.resolved}
        leads = causes_first(
            Finding(each.rule, each.rule, Severity(each.severity), each.step, each.tensor)
            for each in standing.values()
        )
        return standing[leads[0].finding.name] if leads and leads[0].alarms else None


@dataclass(frozen=True)
class Task:
    run: Run
    profile: str


def evaluate(runs: Iterable[Run], profile: str, jobs: int = 2) -> dict[Run, Evaluation]:
    """The evaluation of each run under a profile."""
    tasks = [Task(run, profile) for run in runs]
    return dict(work(f"{profile}", evaluate_one, tasks, jobs))


def evaluate_one(task: Task) -> tuple[Run, Evaluation]:
    if not task.run.tensors.is_dir():
        return task.run, Evaluation(0, (), ())
    steps: list[int] = [0]
    watch = Watch(profile=task.profile)
    checkpoint, _ = check(open_storage(task.run.tensors), watch, on_step=steps.append)
    last = max(steps)
    records = tuple(checkpoint.rules.values())
    alarms = tuple(alarm for record in records for alarm in _alarms(record, max(1, last)))
    failed = tuple(r.rule for r in records if r.status is RuleStatus.ERROR)
    return task.run, Evaluation(last + 1, alarms, failed)


def _alarms(record: RuleRecord, last: int) -> Iterable[Alarm]:
    found = record.fired_at or record.first_violation
    if found is None or record.fired_at is None:
        return
    severity = record.severity.value if record.severity else Severity.WARNING.value
    resolved = record.status is not RuleStatus.ISSUES_FOUND
    step = found.step
    yield Alarm(record.rule, severity, step, step / last, found.tensor, found.detail, resolved)
