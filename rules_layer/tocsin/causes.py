"""The order in which findings are shown: the cause first, with what it explains folded below it.

Checks, reports, e-mails, webhooks and statuses show what ``causes_first`` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tocsin.contracts import FAMILIES, find, id_and_place
from tocsin.explanations import explained_by
from tocsin.model import Severity

_MOST_SEVERE_FIRST = tuple(reversed(Severity))
_CONTRACTS = "BrokenContract"


@dataclass(frozen=True)
class Finding:
    """A rule that fires.

    name: of the rule in the configuration.
    rule: the name of its class.
    step: of the first violation; None if it is not known.
    tensor: the tensor of the violation, which names a broken contract.
    """

    name: str
    rule: str
    severity: Severity = Severity.WARNING
    step: int | None = None
    tensor: str | None = None


@dataclass(frozen=True)
class Lead:
    """A finding that no other finding explains, with the findings that it explains."""

    finding: Finding
    explains: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (self.finding, *self.explains)

    @property
    def severity(self) -> Severity:
        """The worst severity of the finding and of those it explains."""
        return min((each.severity for each in self.findings), key=_MOST_SEVERE_FIRST.index)

    @property
    def alarms(self) -> bool:
        return self.severity is not Severity.INFO

    @property
    def likely(self) -> bool:
        """Return whether the finding is no alarm itself, but the likely cause of one."""
        return self.alarms and self.finding.severity is Severity.INFO


def kind_of(finding: Finding) -> str:
    """Return the kind of a finding in ``EXPLAINS``: its rule, or the family of a broken contract. A
    contract at ``info`` states a fact that need not be a fault, and is a kind of its own.
    """
    if finding.rule != _CONTRACTS:
        return finding.rule
    key, _ = id_and_place(finding.tensor or "")
    if finding.severity is Severity.INFO:
        return f"contract: {key}"
    families = (name for name, family in FAMILIES.items() if find(key) in family)
    return next((f"contract: {name}" for name in families), finding.rule)


def explains(cause: Finding, effect: Finding) -> bool:
    """Return whether one finding explains another directly."""
    found = explained_by(kind_of(cause)).get(effect.rule)
    if found is None or not found.since or cause.step is None or effect.step is None:
        return found is not None
    return cause.step <= effect.step


def causes_first(findings: Iterable[Finding]) -> tuple[Lead, ...]:
    """Return the findings that no other one explains: the most severe first, then the earliest.

    Each finding is there once, as a lead or below one. A lead is as severe as the worst of what it
    explains, and as early as its first alarm. Where two explain an alarm, the more severe one does,
    and one that alarms by itself before a likely cause.
    """
    rest = set(findings)
    below = _below(rest)
    leads = []
    while rest:
        explained = {effect for each in rest for effect in below[each] if effect in rest}
        roots = [Lead(each, _reached(each, below, rest)) for each in rest - explained]
        alone = [lead for lead in roots if not lead.explains]  # they take nothing from others
        leads += alone or [min(roots, key=_claim)]
        rest -= {each for lead in leads for each in lead.findings}
    return tuple(sorted(leads, key=_rank))


def _below(findings: Iterable[Finding]) -> Mapping[Finding, list[Finding]]:
    """Return the findings that each finding explains directly."""
    found = tuple(findings)
    by_rule: dict[str, list[Finding]] = {}
    for each in found:
        by_rule.setdefault(each.rule, []).append(each)
    return {
        cause: [
            each
            for rule in explained_by(kind_of(cause))
            for each in by_rule.get(rule, ())
            if explains(cause, each)
        ]
        for cause in found
    }


def _reached(
    root: Finding, below: Mapping[Finding, list[Finding]], rest: set[Finding]
) -> tuple[Finding, ...]:
    """Return what a finding explains of the rest, directly or by way of others, but nothing that an
    arrow of its own leaves out because it began earlier.
    """
    own = explained_by(kind_of(root))
    reached: set[Finding] = set()
    todo = list(below[root])
    while todo:
        each = todo.pop()
        fits = each.rule not in own or explains(root, each)
        if each in rest and each not in reached and fits:
            reached.add(each)
            todo += below[each]
    return tuple(sorted(reached, key=_order))


def _claim(lead: Lead) -> tuple[bool, int, float, str]:
    return lead.likely, *_rank(lead)


def _rank(lead: Lead) -> tuple[int, float, str]:
    """Return severity and step of the first alarm, or of the finding where nothing is an alarm."""
    alarms = [each for each in lead.findings if each.severity is not Severity.INFO]
    steps = (_order(each)[1] for each in alarms or [lead.finding])
    return _MOST_SEVERE_FIRST.index(lead.severity), min(steps), lead.finding.name


def _order(finding: Finding) -> tuple[int, float, str]:
    step = float("inf") if finding.step is None else float(finding.step)
    return _MOST_SEVERE_FIRST.index(finding.severity), step, finding.name
