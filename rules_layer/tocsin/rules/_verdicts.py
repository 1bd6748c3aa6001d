"""The verdicts that rules return, and the measured values in them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tocsin.model import Measure, Outcome, Reason, Side, Verdict, altered
from tocsin.rules._rule import Tensor

HEALTHY = Verdict(Outcome.HEALTHY, Reason.WITHIN_BOUNDS)
UNDECIDED = Verdict(Outcome.UNDECIDED, Reason.TOO_EARLY)


def measured(
    verdict: Verdict, value: float, limit: float, side: Side = "above", name: str = ""
) -> Verdict:
    """Add the measured value and its limit to a verdict, in the rule's own unit.

    ``side`` says on which side of ``limit`` a ``value`` violates the rule. Give it for healthy
    steps, too: a report then draws the measure of the whole run against its limit. The report
    names it by the first number of the evidence: with ``name``, a violation gets it as that one.
    """
    evidence = verdict.evidence
    if name and verdict.violation:
        rest = {key: number for key, number in evidence.items() if key != name}
        evidence = {name: float(value), **rest}
    return altered(verdict, evidence=evidence, measure=Measure(float(value), float(limit), side))


def not_applicable(reason: Reason, detail: str) -> Verdict:
    """Return the verdict that the step has nothing that the rule can judge."""
    return Verdict(Outcome.NOT_APPLICABLE, reason, detail)


def violation(
    reason: Reason, detail: str, tensor: Tensor, **evidence: float | int | str
) -> Verdict:
    """Return the verdict that the step violates the rule. ``evidence`` has the deciding numbers.

    Put the most important number first: the action ``metric`` publishes it, and an SMS shows it.
    """
    return Verdict(Outcome.VIOLATION, reason, detail, tensor.name, tensor.worker, evidence)


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the violation with the largest first number, else the healthy verdict that is closest
    to its limit."""
    known = list(verdicts)
    violations = [verdict for verdict in known if verdict.violation]
    if violations:
        return max(violations, key=_first_number)
    healthy = [verdict for verdict in known if verdict.outcome is Outcome.HEALTHY]
    return max(healthy, key=_closeness, default=UNDECIDED)


def _closeness(verdict: Verdict) -> float:
    """Return how close a healthy measure is to its limit: the greater, the closer."""
    return -math.inf if verdict.measure is None else verdict.measure.excess


def _first_number(verdict: Verdict) -> float:
    number = next(iter(verdict.evidence.values()), 0.0)
    return float(number) if not isinstance(number, str) and math.isfinite(number) else math.inf
