"""A status change and a run's end to publish."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.evaluation import RuleSummary, RunSummary, StatusChange, Violation
from tocsin.model import Mode, RuleStatus, Severity
from tocsin.watch import Policy, Silence

RUN = "s3://b/jobs/j1/debug-output"
CHANGE = StatusChange(
    name="eval-loss",
    rule="LossNotDecreasing",
    status=RuleStatus.ISSUES_FOUND,
    previous=RuleStatus.IN_PROGRESS,
    details="loss is nan",
    severity=Severity.CRITICAL,
    actions=("stop", "email"),
    dry_run=False,
    step=120,
    mode=Mode.TRAIN,
    mode_step=100,
    index_modified=1_700_000_000.25,
    run_id="r",
    dedup_id="d",
    statuses=(),
    violation=Violation(
        120, Mode.TRAIN, 100, "worker_0", "loss", "not_finite", "loss is nan", {"loss": "NaN"}
    ),
    sequence=17,
    inhibits=("Overfit",),
    policy=Policy(summary=("email",)),
    silences=(
        Silence(
            datetime(2026, 12, 1, 8, tzinfo=UTC), job="nightly-*", author="ann", reason="known"
        ),
    ),
)
SUMMARY = RunSummary(
    ending="marker",
    sequence=17,
    evaluated=50,
    first=0,
    last=490,
    status=RuleStatus.ISSUES_FOUND,
    policy=Policy(summary=("email",)),
    dry_run=False,
    run_id="r",
    dedup_id="s",
    statuses=(RuleSummary("eval-loss", RuleStatus.ISSUES_FOUND, "loss is nan", 1_700_000_000.0),),
)
