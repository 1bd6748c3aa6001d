"""Take up what is said of a run: the newest alert of each rule, and how the run ended. Pure."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tocsin.alerts._group import MOST_RULES, Group, Noted
from tocsin.alerts._ports import Known
from tocsin.events import RunSummary, StatusChange
from tocsin.model import RuleStatus

_MOST_SEEN = 500
_MOST_ACTIONS = 20
_MOST_INHIBITED = 50
_MOST_SILENCES = 20
_MOST_EVIDENCE = 16


def noted(group: Group, alert: StatusChange, now: float) -> Group:
    """The group with the alert, if it is newer than what is known of its rule.

    What never fired is no news. An alert without a sequence number is newer if it is another.
    """
    rule = alert.rule_configuration_name
    old = group.alerts.get(rule)
    if old is None and not _matters(alert):
        return group
    if old is not None and not _newer(group, alert, old.alert):
        return _fired_before(group, alert, old, now)
    if old is None and len(group.alerts) >= MOST_RULES:
        return group
    seen = group.seen
    if old is not None and not old.alert.sequence:
        seen = (*seen, old.alert.dedup_id)[-_MOST_SEEN:]
    fired = None
    if old is not None and not alert.firing:
        fired = replace(old, fired=None) if old.alert.firing else old.fired
    return replace(
        group,
        job=alert.training_job_name,
        alerts={**group.alerts, rule: Noted(_trimmed(alert), now, fired)},
        seen=seen,
        ended=group.ended and 0 < alert.sequence <= _last(group),
    )


def noted_all(group: Group, known: Known, now: float) -> Group:
    """The group with all that the checkpoint knows, and without rules that watch no more.

    What is newer than the checkpoint is of one that was deleted: numbers have begun anew.
    """
    rest = {
        rule: note
        for rule, note in group.alerts.items()
        if not note.alert.sequence
        or (rule in known.rules) == (note.alert.sequence <= known.sequence)
    }
    if len(rest) < len(group.alerts):
        group = replace(group, alerts=rest)
    if _last(group) > known.sequence:
        group = replace(group, summary=None, ended=False)
    for alert in known.alerts:
        group = noted(group, alert, now)
    return group


def ended(group: Group, summary: RunSummary) -> Group:
    """The group of a run that has come to an end; an end that is known is no news."""
    if group.summary is not None and (
        group.summary.dedup_id == summary.dedup_id or _order(summary) < _order(group.summary)
    ):
        return group
    newest = max((note.alert.sequence for note in group.alerts.values()), default=0)
    return replace(
        group,
        job=summary.training_job_name,
        summary=summary,
        ended=not summary.sequence or newest <= summary.sequence,
    )


def _fired_before(group: Group, alert: StatusChange, note: Noted, now: float) -> Group:
    """The group in which a rule that is over is known to have fired: that came behind its end."""
    if not alert.firing or note.alert.firing or not 0 < alert.sequence < note.alert.sequence:
        return group
    if note.fired is not None and note.fired.alert.sequence >= alert.sequence:
        return group
    note = replace(note, fired=Noted(_trimmed(alert), now))
    return replace(group, alerts={**group.alerts, alert.rule_configuration_name: note})


def _matters(alert: StatusChange) -> bool:
    return alert.firing or alert.previous_status is RuleStatus.ISSUES_FOUND


def _newer(group: Group, alert: StatusChange, than: StatusChange) -> bool:
    if alert.dedup_id == than.dedup_id or alert.dedup_id in group.seen:
        return False
    return not alert.sequence or alert.sequence > than.sequence


def _order(summary: RunSummary) -> tuple[int, int]:
    """A run that goes on after its end may change no rule, but has more steps."""
    return summary.sequence, summary.steps.evaluated


def _last(group: Group) -> int:
    return group.summary.sequence if group.summary else 0


def _trimmed(alert: StatusChange) -> StatusChange:
    """Rules may be anybody's: what they say is kept to a size that many can have."""
    evidence = {
        key[:200]: value[:200] if isinstance(value, str) else value
        for key, value in list(alert.evidence.items())[:_MOST_EVIDENCE]
    }
    return msgspec.structs.replace(
        alert,
        status_details=alert.status_details[:1024],
        tensor=None if alert.tensor is None else alert.tensor[:1024],
        evidence=evidence,
        actions=tuple(action[:512] for action in alert.actions[:_MOST_ACTIONS]),
        debug_rule_evaluation_statuses=(),
        inhibits=alert.inhibits[:_MOST_INHIBITED],
        silences=alert.silences[:_MOST_SILENCES],
    )
