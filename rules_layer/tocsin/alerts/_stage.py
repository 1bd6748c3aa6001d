"""What a stage works on: what one action might tell now, and what is held back of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tocsin.alerts._group import Group, Noted, Sent
from tocsin.alerts._reason import Hold, Send
from tocsin.watch import Silence

Alerts = Mapping[str, Noted]
"""By rule."""


@dataclass(frozen=True)
class View:
    """What a decision depends on: the group, the silences, the time (seconds since the epoch)."""

    group: Group
    silences: Sequence[Silence]
    now: float


@dataclass(frozen=True)
class Held:
    """Why a rule is held back, and until when, if that is known."""

    rule: str
    reason: Hold
    detail: str = ""
    until: float | None = None


@dataclass(frozen=True)
class Batch:
    """One action, the rules that fire and those that are over, what is held, and why the rest is
    sent; without a ``reason`` nothing is.
    """

    action: str
    firing: Alerts
    resolved: Alerts
    held: tuple[Held, ...] = ()
    reason: Send | None = None

    def hold(self, *held: Held) -> Batch:
        """Without those that are held."""
        gone = {each.rule for each in held}
        return replace(
            self,
            firing={rule: note for rule, note in self.firing.items() if rule not in gone},
            resolved={rule: note for rule, note in self.resolved.items() if rule not in gone},
            held=(*self.held, *held),
        )

    def sent(self, view: View) -> Sent | None:
        """What this action has done last."""
        return view.group.sent.get(self.action)


Stage = Callable[[Batch, View], Batch]


def identities(alerts: Alerts) -> dict[str, str]:
    """The ``DedupId`` of each rule: another time that it fires is another."""
    return {rule: note.alert.dedup_id for rule, note in alerts.items()}
