"""A status change and a run summary, for tests of the bus."""

from __future__ import annotations

from datetime import UTC, datetime

from tocsin.events import (
    EvaluatedSteps,
    NotifyPolicy,
    RuleStatusEntry,
    RunSilence,
    RunSummary,
    StatusChange,
)
from tocsin.model import RuleStatus, Severity

RUN = "s3://a-bucket/jobs/j1/debug-output"
CHANGE = StatusChange(
    training_job_name="j1",
    run=RUN,
    rule_configuration_name="eval-loss",
    rule="LossNotDecreasing",
    rule_evaluation_status=RuleStatus.ISSUES_FOUND,
    dedup_id="d",
    previous_status=RuleStatus.IN_PROGRESS,
    status_details="loss is nan",
    severity=Severity.CRITICAL,
    step=120,
    mode="TRAIN",
    mode_step=100,
    worker="worker_0",
    tensor="loss",
    reason="not_finite",
    evidence={"loss": "NaN"},
    actions=("stop", "email"),
    index_last_modified="2023-11-14T22:13:20.250Z",
    run_id="r",
    sequence=17,
    inhibits=("Overfit",),
    notify=NotifyPolicy(summary=("email",)),
    silences=(
        RunSilence(
            datetime(2026, 12, 1, 8, tzinfo=UTC),
            job="nightly-*",
            author="ann",
            reason="known",
            id="watch file",
        ),
    ),
)
SUMMARY = RunSummary(
    training_job_name="j1",
    run=RUN,
    dedup_id="s",
    sequence=17,
    ending="marker",
    steps=EvaluatedSteps(evaluated=50, first=0, last=490),
    rule_evaluation_status=RuleStatus.ISSUES_FOUND,
    debug_rule_evaluation_statuses=(
        RuleStatusEntry(
            "eval-loss", RuleStatus.ISSUES_FOUND, "loss is nan", "2023-11-14T22:13:20.000Z"
        ),
    ),
    summary=("email",),
    notify=NotifyPolicy(summary=("email",)),
    run_id="r",
)
