"""The verdict in one sentence, and the rules that fired in the order of findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tocsin.causes import Lead
from tocsin.evaluation import leads_of
from tocsin.events import LastGood, NotRun
from tocsin.model import Reason, RuleStatus, Severity
from tocsin.report.parts import Headline
from tocsin.tensors import is_machine_run, step_text

Document = dict[str, Any]
"""A run, or a rule, as ``tocsin check --json`` has it."""

_NAMED = 4  # rules that the headline names
_MOSTLY = 0.5  # of the saves since the first one that is not finite


def fired(document: Document) -> list[Document]:
    """Return the rules that fired: causes first, each followed by the rules it explains."""
    return [rule for lead in leads(document) for rule in lead]


def leads(document: Document) -> list[list[Document]]:
    """Return the rules that fired, each that leads with those that it explains after it."""
    rules = {_name(rule): rule for rule in document["rules"]}
    return [[rules[each.name] for each in lead.findings] for lead in leads_of(document)]


def headline(document: Document) -> Headline:
    """Return the verdict in one sentence, and the findings that it explains."""
    found = leads_of(document)
    if not found or not found[0].alarms:
        return _without_alarm(document, len(found))
    lead, rules = found[0], fired(document)
    main, step = rules[0], lead.finding.step
    what = _sentence(str(main["StatusDetails"]))
    likely = "Likely cause: " if lead.likely else ""
    if step is not None and _reason(main) == Reason.NOT_FINITE:
        sentence = _lost(document, main, step, what)
    elif step is None:
        sentence = f"{likely}{_name(main)}: {what}"
    else:
        sentence = f"{likely}{_name(main)} since {_where(document, step)}: {what}"
    return Headline(
        level="critical" if lead.severity is Severity.CRITICAL else "warning",
        sentence=sentence,
        detail=" ".join(filter(None, [_beside(lead, len(rules)), *_left(document)])),
        step=step,
    )


def _lost(document: Document, rule: Document, step: int, what: str) -> str:
    """The sentence on numbers that are not finite: the training broke if they have mostly been so
    since.
    """
    at, steps = _where(document, step), document["steps"]
    count, of = rule["Violations"], rule["DataPoints"]
    since = (steps["last"] - step + 1) / (steps["last"] - steps["first"] + 1)
    if count >= _MOSTLY * since * of:
        return f"Training broke at {at}: {what}"
    return f"{_name(rule)} at {at}, in {count} of {of} saves: {what}"


def _where(document: Document, step: int) -> str:
    """``step 1,566``; of a machine run the time of the minute, or which of its minutes."""
    text = step_text(document["run"], step)
    if not text.startswith("step "):
        return text
    if is_machine_run(document["run"]):  # a demo's minutes are shorter
        return f"minute {step - document['steps']['first'] + 1:,}"
    return f"step {step:,}"


def _beside(lead: Lead, fired: int) -> str:
    """Name the findings that the first one explains, and count the others."""
    parts = []
    if lead.explains:
        names = [each.name for each in lead.explains]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        parts.append(f"It explains {', '.join(names[:_NAMED])}{more}.")
    if others := fired - len(lead.findings):
        parts.append(f"{others} more {'rule' if others == 1 else 'rules'} fired.")
    return " ".join(parts)


def _left(document: Document) -> Iterator[str]:
    """Yield the last good state and the steps that were not run."""
    if good := document.get("last_good"):
        yield f"Last good: {msgspec.convert(good, LastGood).text}."
    if left := document.get("not_run"):
        yield f"Not run: {msgspec.convert(left, NotRun).text}."


def _without_alarm(document: Document, remarks: int) -> Headline:
    steps, finished = document["steps"], document["finished"]
    if not steps["evaluated"] and finished:
        detail = "The training failed, or its hook saved no step: read the log of the training."
        return Headline("warning", "The run ended before its first step.", detail, None)
    if not steps["evaluated"]:
        return Headline(
            "none", "No step is complete yet.", "The run has no data that can be judged.", None
        )
    not_judged = document["not_judged"]
    absent = {name for names in not_judged.values() for name in names}
    failed = [rule for rule in document["rules"] if _status(rule) is RuleStatus.ERROR]
    judged = [rule for rule in document["rules"] if _name(rule) not in absent]
    count = len([rule for rule in judged if rule not in failed])
    if not count:
        detail = "No loss was captured." if not_judged["no_loss"] else "See what is missing below."
        if failed:
            detail = f"{_name(failed[0])} is in Error: {_sentence(failed[0]['StatusDetails'])}"
        return Headline("none", "Nothing could be judged.", detail, None)
    rules = "1 rule" if count == 1 else f"{count} rules"
    unit = "minute" if is_machine_run(document["run"]) else "step"
    over = f"over {steps['evaluated']:,} {unit}{'s' if steps['evaluated'] != 1 else ''}"
    if document.get("TrainingJobStatus") == "Failed":
        detail = f"No rule found a cause: {rules} judged healthy {over}. Read the log of the job."
        return Headline("warning", "The training job failed.", detail, None)
    if early := too_early(document):
        return Headline("none", early, "The others need more steps.", None)
    sentence = f"No issues found: {rules} judged healthy {over}."
    if not finished:
        sentence = f"No issues so far: {rules} judged healthy {over}."
    detail = ""
    if remarks:
        sentence = f"No alarm {over}."
        what = "finding has" if remarks == 1 else "findings have"
        detail = f"{remarks} {what} severity info."
    if not_judged["no_loss"]:
        detail = f"No loss was captured: {len(not_judged['no_loss'])} rules cannot judge."
    if failed:
        detail = f"{len(failed)} rule{'s are' if len(failed) > 1 else ' is'} in Error. {detail}"
    return Headline("ok", sentence, detail.strip(), None)


def too_early(document: Document) -> str:
    """Return a sentence where nothing was found, and more rules wait for steps than have judged
    one."""
    rules, waiting = document["rules"], len(document["not_judged"]["too_few_steps"])
    absent = {name for names in document["not_judged"].values() for name in names}
    judged = [rule for rule in rules if _name(rule) not in absent]
    found = (RuleStatus.ISSUES_FOUND, RuleStatus.ERROR)
    if not judged or waiting <= len(judged) or any(_status(rule) in found for rule in judged):
        return ""
    return f"Too early to say: {len(judged)} of {len(judged) + waiting} rules have judged a step."


def _sentence(text: str) -> str:
    text = text.strip() or "see below"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _status(rule: Document) -> RuleStatus:
    return RuleStatus(rule["RuleEvaluationStatus"])


def _name(rule: Document) -> str:
    return str(rule["RuleConfigurationName"])


def _reason(rule: Document) -> str:
    return "" if rule["FirstViolation"] is None else str(rule["FirstViolation"]["reason"])
