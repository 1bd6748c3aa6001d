"""The actions on the page, from a run's group of alerts."""

from __future__ import annotations

from tocsin.actions import ActionOutcome
from tocsin.alerts import AlertGroup, LogEntry, RuleAlert
from tocsin.events import StatusChange
from tocsin.model import RuleStatus
from tocsin.report import Alert, actions_of


def changed(status: RuleStatus, step: int) -> StatusChange:
    return StatusChange("j", "s3://b/j", "Rule", "Rule", status, f"{step}", step=step)


FIRED = RuleAlert(changed(RuleStatus.ISSUES_FOUND, 5), at=10.0)
GROUP = AlertGroup(
    "s3://b/j",
    alerts={"Rule": RuleAlert(changed(RuleStatus.IN_PROGRESS, 9), at=20.0, fired=FIRED)},
    log=(
        LogEntry(9.0, "Rule", "send", "first", "stop", ActionOutcome.REFUSED, "no such job"),
        LogEntry(11.0, "Rule", "send", "first", "stop", ActionOutcome.DONE, "asked SageMaker"),
        LogEntry(12.0, "Rule", "send", "first", "sms:+1555", ActionOutcome.DONE, "sent to +1555"),
        LogEntry(20.0, "Rule", "send", "resolved", "webhook:pager", ActionOutcome.FAILED, "503"),
        LogEntry(21.0, "Rule", "send", "resolved", "email"),
        LogEntry(22.0, "Rule", "hold", "silenced", "email"),
    ),
)


def test_what_was_taken_at_which_step_and_without_addresses() -> None:
    assert actions_of(GROUP) == [
        Alert(None, "Rule", "stop", "refused", "no such job"),  # of an alert that is forgotten
        Alert(5, "Rule", "stop", "done", "asked SageMaker"),
        Alert(5, "Rule", "sms", "done", ""),
        Alert(9, "Rule", "webhook:pager", "failed", "503"),
    ]
