"""Stage: holds silenced alerts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tocsin.alerts.stage import Batch, Held, Hold, View
from tocsin.events import StatusChange
from tocsin.watch import Silence

_LOOK_AGAIN = 900.0
"""Seconds. A silence may be ended early, and the groups that it held are not notified."""


def silence(batch: Batch, view: View) -> Batch:
    """Hold the rules that a silence of the deployment or of the watch file covers."""
    held = []
    for rule, each in {**batch.firing, **batch.resolved}.items():
        if covering := max(silences_of(each.alert, view), key=_until, default=None):
            until = min(_until(covering), _next_look(view))
            held.append(Held(rule, Hold.SILENCED, _describe(covering), until))
    return batch.hold(*held)


def silences_of(alert: StatusChange, view: View) -> Iterator[Silence]:
    """Yield the silences that cover an alert now."""
    own = (
        Silence(each.until, job=each.job, author=each.author, reason=each.reason, id=each.id)
        for each in alert.silences
    )
    for each in (*own, *view.silences):
        covers = each.covers(alert.training_job_name, alert.rule_configuration_name, alert.severity)
        if covers and view.now < _until(each):
            yield each


def _next_look(view: View) -> float:
    """The same time for every look until then, so that one message is enough."""
    first = min(each.at for each in view.group.alerts.values())
    return first + ((view.now - first) // _LOOK_AGAIN + 1) * _LOOK_AGAIN


def _until(silence: Silence) -> float:
    return silence.until.timestamp()


def _describe(silence: Silence) -> str:
    until = datetime.fromtimestamp(_until(silence), UTC).isoformat(timespec="minutes")[:-6] + "Z"
    by = f" by {silence.author}" if silence.author else ""
    why = f": {silence.reason}" if silence.reason else ""
    return f"{silence.id}{by} until {until}{why}"[:600]
