"""Update a group with the alerts, checkpoint and end of its run. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from tocsin.alerts.group import MOST_RULES, AlertGroup, RuleAlert
from tocsin.alerts.ports import Known
from tocsin.events import RunSummary, StatusChange
from tocsin.model import RuleStatus

_MOST_SEEN = 500
_MOST_ACTIONS = 20
_MOST_INHIBITED = 50
_MOST_SILENCES = 20
_MOST_EVIDENCE = 16


def with_alert(group: AlertGroup, alert: StatusChange, now: float) -> AlertGroup:
    """Return the group with the alert, if it is newer than the last alert of its rule.

    A rule that never fired is not news. Without a sequence number another alert is a newer one.
    """
    rule = alert.rule_configuration_name
    old = group.alerts.get(rule)
    if old is None:
        group = _with_room(group)
        if not _matters(alert) or len(group.alerts) >= MOST_RULES:
            return group
    elif not _is_newer(group, alert, old.alert):
        return _with_earlier_firing(group, alert, old, now)
    seen, fired = group.seen, None
    if old is not None and not old.alert.sequence:
        seen = (*seen, old.alert.dedup_id)[-_MOST_SEEN:]
    if old is not None and not alert.firing:
        fired = replace(old, fired=None) if old.alert.firing else old.fired
    return replace(
        group,
        job=alert.training_job_name,
        alerts={**group.alerts, rule: RuleAlert(_trimmed(alert), now, fired)},
        seen=seen,
        ended=group.ended and 0 < alert.sequence <= _last_sequence(group),
    )


def with_checkpoint(group: AlertGroup, known: Known, now: float) -> AlertGroup:
    """Return the group with all that the checkpoint knows, and without rules that no longer watch.
    People may still have to hear that the alerts of those rules are withdrawn.

    Alerts that are newer than the checkpoint belong to one that was deleted: its numbers have
    started again.
    """
    rest = {
        rule: each
        for rule, each in group.alerts.items()
        if not each.alert.sequence
        or (rule in known.rules) == (each.alert.sequence <= known.sequence)
        or (rule not in known.rules and each.alert.withdrawn)
    }
    if len(rest) < len(group.alerts):
        group = replace(group, alerts=rest)
    if _last_sequence(group) > known.sequence:
        group = replace(group, summary=None, ended=False)
    for alert in known.alerts:
        group = with_alert(group, alert, now)
    return group


def with_summary(group: AlertGroup, summary: RunSummary) -> AlertGroup:
    """Return the group of an ended run; a known summary changes nothing."""
    if group.summary is not None and (
        group.summary.dedup_id == summary.dedup_id or _order(summary) < _order(group.summary)
    ):
        return group
    newest = max((each.alert.sequence for each in group.alerts.values()), default=0)
    return replace(
        group,
        job=summary.training_job_name,
        summary=summary,
        ended=not summary.sequence or newest <= summary.sequence,
    )


def _with_room(group: AlertGroup) -> AlertGroup:
    """The group without the oldest rule that no longer fires, if it is full."""
    over = {rule: each.at for rule, each in group.alerts.items() if not each.alert.firing}
    if len(group.alerts) < MOST_RULES or not over:
        return group
    oldest = min(over, key=lambda rule: over[rule])
    rest = {rule: each for rule, each in group.alerts.items() if rule != oldest}
    return replace(group, alerts=rest)


def _with_earlier_firing(
    group: AlertGroup, alert: StatusChange, newest: RuleAlert, now: float
) -> AlertGroup:
    """Return the group with a firing that arrived after its resolution."""
    if not alert.firing or newest.alert.firing or not 0 < alert.sequence < newest.alert.sequence:
        return group
    if newest.fired is not None and newest.fired.alert.sequence >= alert.sequence:
        return group
    newest = replace(newest, fired=RuleAlert(_trimmed(alert), now))
    return replace(group, alerts={**group.alerts, alert.rule_configuration_name: newest})


def _matters(alert: StatusChange) -> bool:
    return alert.firing or alert.previous_status is RuleStatus.ISSUES_FOUND


def _is_newer(group: AlertGroup, alert: StatusChange, than: StatusChange) -> bool:
    if alert.dedup_id == than.dedup_id or alert.dedup_id in group.seen:
        return False
    return not alert.sequence or alert.sequence > than.sequence


def _order(summary: RunSummary) -> tuple[int, int]:
    """Return a key that orders summaries: a continued run has more steps, maybe no new change."""
    return summary.sequence, summary.steps.evaluated


def _last_sequence(group: AlertGroup) -> int:
    return group.summary.sequence if group.summary else 0


def _trimmed(alert: StatusChange) -> StatusChange:
    """The alert in a size that many rules can have: a rule's texts may come from anybody."""
    evidence = {
        key[:200]: value[:200] if isinstance(value, str) else value
        for key, value in list(alert.evidence.items())[:_MOST_EVIDENCE]
    }
    return replace(
        alert,
        status_details=alert.status_details[:1024],
        tensor=None if alert.tensor is None else alert.tensor[:1024],
        evidence=evidence,
        actions=tuple(action[:512] for action in alert.actions[:_MOST_ACTIONS]),
        debug_rule_evaluation_statuses=(),
        inhibits=alert.inhibits[:_MOST_INHIBITED],
        silences=alert.silences[:_MOST_SILENCES],
    )
