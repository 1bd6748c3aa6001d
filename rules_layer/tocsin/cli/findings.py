"""Findings of a run, the cause first, and one line about the rules without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tocsin.cli.not_judged import names_not_judged
from tocsin.cli.output import Document
from tocsin.model import Role, RuleStatus
from tocsin.report import leads
from tocsin.rules import find_rule

_MOST_TOPICS = 4
_WITHOUT_FINDING = {
    RuleStatus.NO_ISSUES_FOUND: "clean",
    RuleStatus.IN_PROGRESS: "clean so far",
    RuleStatus.STOPPED: "clean until the run went silent",
}
_TOPICS = {
    Role.LOSS: "losses",
    Role.BIAS: "biases",
    Role.FEATURE_IMPORTANCE: "feature importances",
    Role.ACTIVATION_INPUT: "activations",
    Role.ACTIVATION_OUTPUT: "activations",
}


@dataclass(frozen=True)
class Finding:
    """A rule that fired or failed, as in the JSON, with the rules that it explains.

    likely: it is no alarm itself, but the likely cause of one.
    """

    rule: Document
    explains: tuple[Document, ...] = ()
    likely: bool = False


def findings(document: Document) -> list[Finding]:
    """Return the rules that fired, the cause first, then the rules in Error."""
    cause = document["cause"] or {}
    likely = cause["RuleConfigurationName"] if cause.get("likely") else None
    return [
        *(
            Finding(rule, tuple(explained), rule["RuleConfigurationName"] == likely)
            for rule, *explained in leads(document)
        ),
        *map(Finding, _with(document, "Error")),
    ]


def without_finding(document: Document) -> list[Document]:
    """Return the rules that neither fired nor failed."""
    return [
        rule
        for rule in document["rules"]
        if rule["RuleEvaluationStatus"] not in ("IssuesFound", "Error")
    ]


def summary(document: Document) -> str:
    """``15 clean · 12 do not apply here (trees, tanh …) · 2 need a loss``; empty without rules."""
    not_judged, reasons = names_not_judged(document), document["not_judged"]
    counts = Counter(
        _WITHOUT_FINDING.get(RuleStatus(rule["RuleEvaluationStatus"]), "not judged")
        for rule in without_finding(document)
        if rule["RuleConfigurationName"] not in not_judged
    )
    parts = [f"{count} {what}" for what, count in counts.items()]
    if absent := reasons["not_captured"]:
        verb = "does" if len(absent) == 1 else "do"
        parts.append(f"{len(absent)} {verb} not apply here{_about(document, absent)}")
    for names, what in ((reasons["no_loss"], "a loss"), (reasons["too_few_steps"], "more steps")):
        if names:
            parts.append(f"{len(names)} {'needs' if len(names) == 1 else 'need'} {what}")
    return " · ".join(parts)


def _with(document: Document, status: str) -> list[Document]:
    return [rule for rule in document["rules"] if rule["RuleEvaluationStatus"] == status]


def _about(document: Document, names: Sequence[str]) -> str:
    """Return the missing tensors of these rules in short: `` (trees, tanh …)``."""
    rules = {rule["RuleConfigurationName"]: rule for rule in document["rules"]}
    topics = list(dict.fromkeys(filter(None, (_lacking(rules[name]) for name in names))))
    more = " …" if len(topics) > _MOST_TOPICS else ""
    return f" ({', '.join(topics[:_MOST_TOPICS])}{more})" if topics else ""


def _lacking(rule: Document) -> str:
    """The kind or role of tensor that was not captured; empty if the rule lacks something else."""
    found = find_rule(rule["Rule"])
    try:
        reads = found().reads() if found else None
    except (TypeError, ValueError):  # a rule that needs parameters
        return ""
    if reads is None:
        return ""
    missing = [reads.tensors[name] for name in rule.get("Missing", ()) if name in reads.tensors]
    nouns = (_noun(read.kinds, read.roles) for read in missing)
    return next(filter(None, nouns), "workers" if reads.peers and not missing else "")


def _noun(kinds: Iterable[str], roles: Sequence[Role]) -> str:
    if not roles:
        return ""
    activation = roles[0] in (Role.ACTIVATION_INPUT, Role.ACTIVATION_OUTPUT)
    kind = next(iter(kinds), "") if activation else ""
    return kind or _TOPICS.get(roles[0], f"{roles[0]}s").replace("_", " ")
