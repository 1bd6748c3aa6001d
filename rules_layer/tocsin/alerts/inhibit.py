"""Stage: holds rules that say nothing new while another rule fires."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.actions import finding
from tocsin.alerts.stage import Alerts, Batch, Held, Hold, View
from tocsin.causes import explains
from tocsin.events import MOST_SEVERE_FIRST, StatusChange
from tocsin.rules import find_rule


def inhibit(batch: Batch, view: View) -> Batch:
    """Hold rules that another firing rule inhibits by its configuration, or explains.

    What a rule explains is held only if the same action notifies of both, and if it is no more
    severe: else nobody would be notified, or not of how bad it is.
    """
    speaking = {**view.group.firing, **batch.firing}
    in_order = sorted(speaking.items(), key=lambda item: item[1].alert.sequence)
    firing = dict(in_order)
    edges = {rule: _inhibited(each.alert, firing, batch.action) for rule, each in firing.items()}
    by = suppressed(edges)
    return batch.hold(
        *(
            Held(rule, Hold.INHIBITED, f"while {by[rule]} fires")
            for rule in batch.firing
            if rule in by
        )
    )


def suppressed(edges: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Maps each inhibited rule to the rule that inhibits it.

    ``edges`` has the rules that each firing rule inhibits, in the order in which they fired. Among
    rules that inhibit each other in a circle, the first one is not inhibited, unless a rule outside
    the circle inhibits one of them.
    """
    targets = frozenset().union(*edges.values())
    by: dict[str, str] = {}
    reached: set[str] = set()
    for root in [*(rule for rule in edges if rule not in targets), *edges]:
        if root in reached:
            continue
        reached.add(root)
        todo = [root]
        while todo:
            source = todo.pop()
            new = {rule for rule in edges[source] if rule in edges} - reached
            by |= dict.fromkeys(new, source)
            reached |= new
            todo += sorted(new)
    return by


def _inhibited(alert: StatusChange, firing: Alerts, action: str) -> frozenset[str]:
    named = {rule for rule in alert.inhibits if rule in firing}
    if action in alert.actions:
        others = _by_class(alert.rule)
        named |= {
            rule
            for rule, each in firing.items()
            if each.alert.rule in others or _speaks_for(alert, each.alert)
        }
    return frozenset(named - {alert.rule_configuration_name})


def _speaks_for(alert: StatusChange, other: StatusChange) -> bool:
    severe = MOST_SEVERE_FIRST.index
    if severe(other.severity) < severe(alert.severity):
        return False
    return explains(finding(alert), finding(other))


def _by_class(rule: str) -> frozenset[str]:
    """The rules that the class of a custom rule inhibits; none if it is not known here."""
    inhibits = getattr(find_rule(rule), "inhibits", ())
    return frozenset(inhibits) if isinstance(inhibits, tuple) else frozenset()  # anybody's rule
