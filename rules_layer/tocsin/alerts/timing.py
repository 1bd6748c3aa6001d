"""Stages: when to notify. Nothing is sent again too soon; news wait to become one message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from tocsin.alerts.group import Sent
from tocsin.alerts.stage import Batch, Held, Hold, Send, View, identities
from tocsin.events import NotifyPolicy
from tocsin.model import Severity


def dedup(batch: Batch, view: View) -> Batch:
    """Decide whether there is anything new to send, as Alertmanager's notification log does.

    Rules that are held back but were sent before count neither as firing nor as resolved.
    """
    if not send_resolved(view):
        batch = replace(batch, resolved={})
    sent = batch.sent(view)
    if sent is not None:
        counted = view.group.firing.keys() - {each.rule for each in batch.held}
        firing = {rule: id_ for rule, id_ in sent.firing.items() if rule in counted}
        sent = msgspec.structs.replace(sent, firing=firing)
    reason = needs_update(
        sent,
        identities(batch.firing),
        batch.resolved,
        repeat=repeat_interval(view),
        now=view.now,
    )
    return replace(batch, reason=reason)


def needs_update(
    sent: Sent | None,
    firing: Mapping[str, str],
    resolved: Collection[str],
    *,
    repeat: float | None,
    now: float,
) -> Send | None:
    """Return the reason to notify, or None: the table of Alertmanager's ``DedupStage.needsUpdate``.

    sent: the last notification.
    firing: identities by rule.
    resolved: rules that were sent as firing, and no longer fire.
    repeat: seconds; None: never.
    """
    if sent is None or not firing.items() <= sent.firing.items():
        if not firing:
            return None
        return Send.NEW_IN_GROUP if sent is not None and sent.firing else Send.FIRST
    if resolved:
        return Send.NEWLY_RESOLVED if firing else Send.ALL_RESOLVED
    if firing and repeat is not None and now >= sent.at + repeat:
        return Send.REPEAT
    return None


def once(batch: Batch, view: View) -> Batch:
    """For actions that are taken once each time that a rule fires: stop, metric."""
    sent = batch.sent(view) or Sent()
    before = [
        Held(rule, Hold.SENT_BEFORE)
        for rule, id_ in identities(batch.firing).items()
        if sent.last_fired.get(rule) == id_
    ]
    rest = replace(batch.hold(*before), resolved={})
    if sent.refused and view.group.ended and batch.action == "stop":
        return rest.hold(*(Held(rule, Hold.REFUSED) for rule in rest.firing))
    if view.now < sent.not_before:
        why, until = Hold.REFUSED if sent.refused else Hold.STOP_GUARD, sent.not_before
        return rest.hold(*(Held(rule, why, until=until) for rule in rest.firing))
    return replace(rest, reason=Send.FIRED if rest.firing else None)


def wait(batch: Batch, view: View) -> Batch:
    """Hold the whole message until ``group_wait`` after its first news, unless one is critical; and
    until ``group_interval`` after the last message.
    """
    if batch.reason in (None, Send.REPEAT):
        return batch
    sent = batch.sent(view) or Sent()
    news = {
        rule: each
        for rule, each in {**batch.firing, **batch.resolved}.items()
        if sent.firing.get(rule) != each.alert.dedup_id
    }
    due, why = sent.at + _newest_policy(view).interval if sent.at else 0.0, Hold.GROUP_INTERVAL
    if not any(
        each.alert.severity is Severity.CRITICAL and each.alert.firing for each in news.values()
    ):
        first = min((each.at + each.alert.notify.wait for each in news.values()), default=0.0)
        due, why = max((due, why), (first, Hold.GROUP_WAIT))
    if view.now >= due:
        return batch
    return replace(batch.hold(*(Held(rule, why, until=due) for rule in news)), reason=None)


def repeat_interval(view: View) -> float | None:
    """Seconds after which an alert that still fires is sent again; None: the run has ended."""
    alerts = [each.alert for each in view.group.firing.values()]
    if view.group.ended or not alerts:
        return None
    return max(alerts, key=lambda alert: alert.sequence).notify.repeat


def send_resolved(view: View) -> bool:
    return bool(view.group.alerts) and _newest_policy(view).send_resolved


def _newest_policy(view: View) -> NotifyPolicy:
    alerts = (each.alert for each in view.group.alerts.values())
    return max(alerts, key=lambda alert: alert.sequence).notify
