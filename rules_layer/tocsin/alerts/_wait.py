"""Stage: what a run reports within a while becomes one message; what is critical does not wait."""

from __future__ import annotations

from dataclasses import replace

from tocsin.alerts._group import Sent
from tocsin.alerts._reason import Hold, Send
from tocsin.alerts._stage import Batch, Held, View, identities
from tocsin.model import Severity


def wait(batch: Batch, view: View) -> Batch:
    """Holds the whole message until ``group_wait`` after its first news."""
    if batch.reason in (None, Send.REPEAT):
        return batch
    sent = batch.sent(view) or Sent()
    told = {**sent.firing, **sent.resolved}
    news = {
        rule: note
        for rule, note in {**batch.firing, **batch.resolved}.items()
        if told.get(rule) != identities({rule: note})[rule]
    }
    if any(
        note.alert.severity is Severity.CRITICAL and note.alert.firing for note in news.values()
    ):
        return batch
    due = min((note.at + note.alert.notify.wait for note in news.values()), default=view.now)
    if view.now >= due:
        return batch
    waiting = (Held(rule, Hold.GROUP_WAIT, until=due) for rule in news)
    return replace(batch.hold(*waiting), reason=None)
