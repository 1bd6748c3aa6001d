"""The verdicts of the rules on each run, by the same engine as in Lambda."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from tocsin.causes import Finding, causes_first
from tocsin.contracts import find, id_and_place
from tocsin.evaluation import check
from tocsin.evaluation.records import RuleRecord
from tocsin.model import RuleStatus, Severity
from tocsin.tensors import open_storage
from tocsin.watch import Watch

from benchmarks.detection.progress import work
from benchmarks.detection.runs import Run

CONTRACTS = "BrokenContract"
"""The rule that fires for any contract."""


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
    def name(self) -> str:
        """The contract's id where a contract is broken, else the rule."""
        if self.rule != CONTRACTS or self.tensor is None:
            return self.rule
        key, _ = id_and_place(self.tensor)
        contract = find(key)
        return contract.id if contract else key

    @property
    def counts(self) -> bool:
        return self.severity != Severity.INFO.value and not self.resolved


@dataclass(frozen=True)
class Evaluation:
    """The findings of a profile's rules in a run of ``steps`` steps.

    failed: rules that ended in an error.
    """

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


def evaluate(runs: Iterable[Run], profile: str, jobs: int = 2) -> dict[Run, Evaluation]:
    """Return the evaluation of each run under a profile."""
    one = partial(evaluate_one, profile)
    return dict(work(f"{profile}", one, runs, jobs))


def evaluate_one(profile: str, run: Run) -> tuple[Run, Evaluation]:
    if not run.tensors.is_dir():
        return run, Evaluation(0, (), ())
    steps: list[int] = [0]
    watch = Watch(profile=profile)
    checkpoint, _ = check(open_storage(run.tensors), watch, on_step=steps.append)
    last = max(steps)
    records = tuple(checkpoint.rules.values())
    found = tuple(alarm for record in records for alarm in alarms(record, max(1, last)))
    failed = tuple(r.rule for r in records if r.status is RuleStatus.ERROR)
    return run, Evaluation(last + 1, found, failed)


def alarms(record: RuleRecord, last: int) -> Iterable[Alarm]:
    found = record.fired_at or record.first_violation
    if found is None or record.fired_at is None:
        return
    severity = record.severity.value if record.severity else Severity.WARNING.value
    resolved = record.status is not RuleStatus.ISSUES_FOUND
    step = found.step
    yield Alarm(record.rule, severity, step, step / last, found.tensor, found.detail, resolved)
