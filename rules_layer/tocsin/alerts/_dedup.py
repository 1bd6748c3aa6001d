"""Stage: what was told is not told again, before its time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tocsin.alerts._group import Sent
from tocsin.alerts._reason import Hold, Send
from tocsin.alerts._stage import Batch, Held, View, identities


def dedup(batch: Batch, view: View) -> Batch:
    """Decides whether there is news to tell, as Alertmanager's notification log does.

    Rules that are held back but were told before count neither as firing nor as over.
    """
    if not send_resolved(view):
        batch = replace(batch, resolved={})
    sent = batch.sent(view)
    if sent is not None:
        still = view.group.firing.keys() - {each.rule for each in batch.held}
        told = {rule: id_ for rule, id_ in sent.firing.items() if rule in still}
        sent = replace(sent, firing=told)
    reason = needs_update(
        sent,
        identities(batch.firing),
        identities(batch.resolved),
        repeat=repeat_interval(view),
        now=view.now,
    )
    return replace(batch, reason=reason)


def needs_update(
    sent: Sent | None,
    firing: Mapping[str, str],
    resolved: Mapping[str, str],
    *,
    repeat: float | None,
    now: float,
) -> Send | None:
    """Why to tell, or None: the table of Alertmanager's ``DedupStage.needsUpdate``.

    ``sent`` is what was told last; ``firing`` and ``resolved`` are identities by rule, ``repeat``
    seconds, None: never.
    """
    if sent is None or not firing.items() <= sent.firing.items():
        if not firing:
            return None
        return Send.NEW_IN_GROUP if sent is not None and sent.firing else Send.FIRST
    if not resolved.items() <= sent.resolved.items():
        return Send.NEWLY_RESOLVED if firing else Send.ALL_RESOLVED
    if firing and repeat is not None and now >= sent.at + repeat:
        return Send.REPEAT
    return None


def once(batch: Batch, view: View) -> Batch:
    """For actions that are taken once for each time that a rule fires: stop, metric."""
    sent = batch.sent(view) or Sent()
    told = [
        Held(rule, Hold.TOLD)
        for rule, id_ in identities(batch.firing).items()
        if sent.told.get(rule) == id_
    ]
    rest = replace(batch.hold(*told), resolved={})
    return replace(rest, reason=Send.FIRED if rest.firing else None)


def repeat_interval(view: View) -> float | None:
    """Seconds after which what goes on is told again; None: the run is over."""
    alerts = [note.alert for note in view.group.firing.values()]
    if view.group.ended or not alerts:
        return None
    return max(alerts, key=lambda alert: alert.sequence).notify.repeat


def send_resolved(view: View) -> bool:
    alerts = [note.alert for note in view.group.alerts.values()]
    return max(alerts, key=lambda alert: alert.sequence).notify.send_resolved if alerts else False
