"""The verdict in one sentence, and which findings only follow from another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocsin.model import Reason, RuleStatus, Severity
from tocsin.report.page import Headline
from tocsin.tensors import is_machine_run, step_text

Document = dict[str, Any]
"""A run, or a rule, as ``tocsin check --json`` has it."""

_LOST_FIRST = ("NonFiniteData", "ExplodingTensor")


def fired(document: Document) -> list[Document]:
    """The rules that fired, by the step of their first violation.

    At one step what is not finite comes first, and the data before the network.
    """
    found = (rule for rule in document["rules"] if _status(rule) is RuleStatus.ISSUES_FOUND)
    return sorted(found, key=_order)


def consequences(rules: Sequence[Document]) -> set[str]:
    """The names of fired rules that follow from a number that is not finite.

    A NaN or an infinity spreads through a training. Findings from its step on are its
    consequences, except those about time.
    """
    lost = next((at for at, rule in enumerate(rules) if is_not_finite(rule)), None)
    after = () if lost is None else rules[lost + 1 :]
    return {_name(rule) for rule in after if _reason(rule) not in ("", Reason.LATE)}


def is_not_finite(rule: Document) -> bool:
    """Whether a rule fired at a number that is not finite."""
    return _reason(rule) == Reason.NOT_FINITE


def headline(document: Document) -> Headline:
    """The verdict in one sentence, and the first sign."""
    rules = fired(document)
    if not rules:
        return _without_finding(document)
    follow = consequences(rules)
    causes = [rule for rule in rules if _name(rule) not in follow]
    lost = next((rule for rule in rules if is_not_finite(rule)), None)
    main = lost or next((rule for rule in causes if _is_critical(rule)), causes[0])
    step = _step(main)
    critical = _is_critical(main)
    what = _sentence(str(main["StatusDetails"]))
    if lost is not None:
        sentence = f"Training broke at {_where(document, step or 0)}: {what}"
    elif step is None:
        sentence = f"{_name(main)}: {what}"
    else:
        sentence = f"{_name(main)} since {_where(document, step)}: {what}"
    return Headline(
        level="critical" if critical else "warning",
        sentence=sentence,
        detail=_first_sign(document, main, causes, len(follow)),
        step=step,
    )


def _where(document: Document, step: int) -> str:
    """``step 1,566``; of a machine run the time of the minute, or which of its minutes."""
    text = step_text(document["run"], step)
    if not text.startswith("step "):
        return text
    if is_machine_run(document["run"]):  # a demo's minutes are shorter
        return f"minute {step - document['steps']['first'] + 1:,}"
    return f"step {step:,}"


def _first_sign(
    document: Document, main: Document, causes: Sequence[Document], following: int
) -> str:
    parts = []
    first, step = causes[0], _step(main)
    begun = _step(first)
    if first is not main and step is not None and begun is not None and begun < step:
        unit = "minute" if is_machine_run(document["run"]) else "step"
        ago = f"{step - begun:,} {unit}{'s' if step - begun != 1 else ''}"
        at = _where(document, begun)
        parts.append(f"The first sign came {ago} earlier, at {at}: {_name(first)}.")
    others = len(causes) - 1 - bool(parts)
    if others:
        parts.append(f"{others} more {'rule' if others == 1 else 'rules'} fired.")
    if following:
        fires = "rule fired" if following == 1 else "rules fired"
        parts.append(f"{following} more {fires} once the numbers were lost.")
    return " ".join(parts)


def _without_finding(document: Document) -> Headline:
    steps, finished = document["steps"], document["finished"]
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
    sentence = f"No issues found: {rules} judged healthy {over}."
    if not finished:
        sentence = f"No issues so far: {rules} judged healthy {over}."
    detail = ""
    if not_judged["no_loss"]:
        detail = f"No loss was captured: {len(not_judged['no_loss'])} rules cannot judge."
    if failed:
        detail = f"{len(failed)} rule{'s are' if len(failed) > 1 else ' is'} in Error. {detail}"
    return Headline("ok", sentence, detail.strip(), None)


def _sentence(text: str) -> str:
    text = text.strip() or "see below"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _status(rule: Document) -> RuleStatus:
    return RuleStatus(rule["RuleEvaluationStatus"])


def _name(rule: Document) -> str:
    return str(rule["RuleConfigurationName"])


def _is_critical(rule: Document) -> bool:
    return bool(rule["Severity"] == Severity.CRITICAL)


def _step(rule: Document) -> int | None:
    violation = rule["FirstViolation"]
    return None if violation is None else int(violation["step"])


def _reason(rule: Document) -> str:
    return "" if rule["FirstViolation"] is None else str(rule["FirstViolation"]["reason"])


def _order(rule: Document) -> tuple[float, int]:
    step = _step(rule)
    at = float("inf") if step is None else float(step)
    if not is_not_finite(rule):
        return at, len(_LOST_FIRST) + 1
    name = rule["Rule"]
    return at, _LOST_FIRST.index(name) if name in _LOST_FIRST else len(_LOST_FIRST)
