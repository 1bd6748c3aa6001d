"""The input and the output of a stage of the pipeline, and the reasons that it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tocsin.alerts.group import AlertGroup, RuleAlert, Sent
from tocsin.watch import Silence

Alerts = Mapping[str, RuleAlert]
"""By rule."""


class Send(StrEnum):
    """The reason for taking an action now: in logs, metrics and ``tocsin status``."""

    FIRED = "fired"  # stop, metric: once each time that a rule fires
    FIRST = "first_notification"
    NEW_IN_GROUP = "new_in_group"
    ALL_RESOLVED = "all_resolved"
    NEWLY_RESOLVED = "newly_resolved"
    REPEAT = "repeat_interval"
    STOP_GUARD = "stop_guard"
    SUMMARY = "summary"
    TOO_MANY = "too_many_actions"
    JOB_ENDED = "job_ended"  # relaunch: what was asked for has been done, or not


class Hold(StrEnum):
    """The reason for not taking an action now."""

    INHIBITED = "inhibited"
    SILENCED = "silenced"
    GROUP_WAIT = "group_wait"
    GROUP_INTERVAL = "group_interval"
    STOP_GUARD = "stop_guard"
    REFUSED = "refused"
    SENT_BEFORE = "told_before"


@dataclass(frozen=True)
class View:
    """The input of a decision: the group, the silences, the time (seconds since the epoch)."""

    group: AlertGroup
    silences: Sequence[Silence]
    now: float


@dataclass(frozen=True)
class Held:
    """The reason why a rule is held, and its end, if known."""

    rule: str
    reason: Hold
    detail: str = ""
    until: float | None = None


@dataclass(frozen=True)
class Batch:
    """The alerts that one action could send now.

    firing, resolved: the alerts by rule.
    held: the rules that a stage has held back.
    reason: why the rest is sent; None: it is not.
    """

    action: str
    firing: Alerts
    resolved: Alerts
    held: tuple[Held, ...] = ()
    reason: Send | None = None

    def hold(self, *held: Held) -> Batch:
        """Return the batch without the alerts that are held back."""
        rules = {each.rule for each in held}
        return replace(
            self,
            firing={rule: each for rule, each in self.firing.items() if rule not in rules},
            resolved={rule: each for rule, each in self.resolved.items() if rule not in rules},
            held=(*self.held, *held),
        )

    def sent(self, view: View) -> Sent | None:
        """Return the last message of this action."""
        return view.group.sent.get(self.action)


Stage = Callable[[Batch, View], Batch]


def identities(alerts: Alerts) -> dict[str, str]:
    """Return the ``DedupId`` of each rule's alert: it differs each time that the rule fires."""
    return {rule: each.alert.dedup_id for rule, each in alerts.items()}
