"""Stage: what follows from something worse is not told beside it."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.actions import Alert
from tocsin.alerts._reason import Hold
from tocsin.alerts._stage import Alerts, Batch, Held, View

_OVERFITTING = frozenset({"Overfit", "Overtraining", "LossTooGoodTooSoon"})
_OF_LOSSES = frozenset(
    {
        "LossDiverging",
        "LossNotDecreasing",
        "LossOscillating",
        "LossSpike",
        "NoBetterThanGuessing",
        "Underfitting",
    }
)
DEFAULTS: Mapping[str, frozenset[str]] = {
    "ExplodingTensor": _OF_LOSSES | _OVERFITTING,  # with NaN, no loss says anything any more
    "GradientExplosion": _OVERFITTING,
    "LossDiverging": _OVERFITTING,
}
"""Rules (by ``Rule``) beside which others tell nothing new, where both would be told alike."""


def inhibit(batch: Batch, view: View) -> Batch:
    """Holds rules that another firing rule inhibits, by its configuration or by ``DEFAULTS``.

    A default inhibits only where the other is told by the same action: else nobody would be told.
    """
    speaking = {**view.group.firing, **batch.firing}
    in_order = sorted(speaking.items(), key=lambda item: item[1].alert.sequence)
    firing = dict(in_order)
    edges = {rule: _inhibited(note.alert, firing, batch.action) for rule, note in firing.items()}
    by = suppressed(edges)
    return batch.hold(
        *(
            Held(rule, Hold.INHIBITED, f"while {by[rule]} fires")
            for rule in batch.firing
            if rule in by
        )
    )


def suppressed(edges: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Which rules are inhibited, and by which; ``edges`` are whom each rule inhibits, the rule
    that fired first in front.

    Of rules that inhibit each other in a circle, with nobody outside above them, the first speaks.
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


def _inhibited(alert: Alert, firing: Alerts, action: str) -> frozenset[str]:
    named = {rule for rule in alert.inhibits if rule in firing}
    if action in alert.actions:
        default = DEFAULTS.get(alert.rule, frozenset())
        named |= {rule for rule, note in firing.items() if note.alert.rule in default}
    return frozenset(named - {alert.rule_configuration_name})
