"""Rules that have judged no step: their display, and advice."""

from __future__ import annotations

from tocsin.cli.errors import WRONG
from tocsin.cli.output import Document, note
from tocsin.model import Severity

FOUND = 1

NOT_JUDGED = "not judged"
"""The status, for people, of a rule that has judged no step. JSON has Amazon's status."""

NAME_THE_LOSS = 'name it: hook.record_loss(loss) or hook.save("loss", loss, collection="losses")'


def names_not_judged(document: Document) -> set[str]:
    """Return the rules of all lists of ``not_judged``."""
    return {name for names in document["not_judged"].values() for name in names}


def no_loss(document: Document) -> str:
    """``no loss was captured: 9 rules cannot judge``; empty if no rule lacks one."""
    count = len(document["not_judged"]["no_loss"])
    rules = "1 rule" if count == 1 else f"{count} rules"
    return f"no loss was captured: {rules} cannot judge" if count else ""


def nothing_judged(document: Document) -> bool:
    """Return whether no rule has judged a step of the run."""
    without = names_not_judged(document)
    return all(
        rule["RuleConfigurationName"] in without
        or (rule["RuleEvaluationStatus"] == "Error" and not rule["DataPoints"])
        for rule in document["rules"]
    )


def why_nothing(document: Document) -> str:
    """Return the first reason why no rule has judged a step, and what to do."""
    if failed := errors(document):
        return failed
    if not document["steps"]["evaluated"] and document["finished"]:
        return "the run ended before its first step: read the log of the training"
    if not document["steps"]["evaluated"]:
        return "the run has no complete step: try again after the training has saved one"
    if not document["rules"]:
        return "no rule watches the run: name some in a watch file, or with --rule"
    if document["not_judged"]["no_loss"]:
        return f"no loss was captured; {NAME_THE_LOSS} (docs/hooks)"
    if document["not_judged"]["too_few_steps"]:
        return "too few steps: train longer, or save more often (save_interval)"
    return "no tensor that the rules read was captured: their details name the tensors"


def errors(document: Document) -> str:
    """Return the first rule in Error with its reason, and how many more there are; else empty."""
    wrong = [rule for rule in document["rules"] if rule["RuleEvaluationStatus"] == "Error"]
    if not wrong:
        return ""
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return f"{wrong[0]['RuleConfigurationName']} is in Error: {wrong[0]['StatusDetails']}{more}"


def fails(rule: Document, fail_on: Severity) -> bool:
    """Return whether the rule fired and is at least as severe."""
    severities = list(Severity)
    severity = Severity(rule["Severity"] or Severity.WARNING)
    fired: bool = rule["RuleEvaluationStatus"] == "IssuesFound"
    return fired and severities.index(severity) >= severities.index(fail_on)


def exit_code(document: Document, fail_on: Severity = Severity.INFO) -> int:
    """1 if a rule of this severity fired; else 2, and why, if nothing was judged or a rule is in
    Error.
    """
    if any(fails(rule, fail_on) for rule in document["rules"]):
        return FOUND
    if nothing_judged(document):
        note(f"no rule could judge the run: {why_nothing(document)}")
        return WRONG
    if failed := errors(document):
        note(failed)
        return WRONG
    return 0
