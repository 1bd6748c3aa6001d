"""The actions that were taken for a run, from its group of alerts."""

from __future__ import annotations

from tocsin.alerts import AlertGroup, LogEntry
from tocsin.report.parts import Alert

_WITH_ADDRESS = ("email", "sms")


def actions_of(group: AlertGroup) -> list[Alert]:
    """Return the actions whose outcome is known, the oldest first.

    Without addresses and telephone numbers: whoever gets the link of one message opens the page.
    """
    return [_alert(group, entry) for entry in group.log if entry.outcome is not None]


def _alert(group: AlertGroup, entry: LogEntry) -> Alert:
    action, detail, outcome = entry.action, entry.detail, str(entry.outcome)
    kind = action.partition(":")[0]
    if kind in _WITH_ADDRESS:
        action, detail = kind, ""
    return Alert(_step(group, entry), entry.rule, action, outcome, detail)


def _step(group: AlertGroup, entry: LogEntry) -> int | None:
    """The step of the rule's newest alert at that time, if the group still has it."""
    newest = group.alerts.get(entry.rule)
    known = () if newest is None else (newest, newest.fired or newest)
    seen = [each for each in known if each.at <= entry.at]
    return max(seen, key=lambda each: each.at).alert.step if seen else None
