"""The words of e-mails and SMS: short, plain, and useful to whoever is woken by them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.actions._alert import Alert
from tocsin.actions._request import Outcome, Result
from tocsin.words import ascii_only, clean, cut, number

_SUBJECT = 99
_SMS = 159
_STOP = {
    Outcome.DONE: "stop requested",
    Outcome.ALREADY_STOPPED: "job had stopped",
    Outcome.REFUSED: "stop refused",
    Outcome.FAILED: "stop failed",
    Outcome.DRY_RUN: "dry run",
}


@dataclass(frozen=True)
class About:
    """What a rule says of itself: what it means when it fires, and what to look at next."""

    meaning: str = ""
    advice: str = ""


def subject(alert: Alert, stop: Result | None) -> str:
    """One line of fewer than 100 ASCII characters, as SNS wants it."""
    end = f"; {_STOP[stop.outcome]}" if stop else ""
    return _headline(f"Tocsin {alert.severity}", alert, end, _SUBJECT)


def sms(alert: Alert, stop: Result | None) -> str:
    """Fewer than 160 ASCII characters, so that it stays one SMS."""
    end = f". {_STOP[stop.outcome].capitalize()}." if stop else ""
    text = _headline("Tocsin", alert, end, _SMS)
    numbers = next(_numbers(alert), "")
    return f"{text} {numbers}" if numbers and len(text) + 1 + len(numbers) <= _SMS else text


def email(alert: Alert, stop: Result | None, about: About) -> str:
    """The whole story: what, where, the numbers, what was done, what to look at, how to silence."""
    run, rule = clean(alert.run), clean(alert.rule, 100)
    paragraphs = [
        f"{clean(_rule(alert), 200)} fired in training job {clean(alert.training_job_name, 100)}.",
        clean(about.meaning),
        clean(alert.status_details),
        "\n".join(f"{label + ':':<10}{text}" for label, text in _facts(alert) if text),
        _stopped(stop),
        f"What to look at: {clean(about.advice)}" if about.advice else "",
        _more(run, rule),
        _silence(run),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


def _more(run: str, rule: str) -> str:
    # Quoted, because people paste it into a shell and others choose the names.
    quoted = shlex.quote(run)
    return (
        "To see more:\n"
        f"  tocsin check {quoted}\n"
        f"  tocsin tensors {quoted}\n"
        f"  tocsin rules {shlex.quote(rule)}"
    )


def _silence(run: str) -> str:
    return (
        'To silence this: take "email" out of the rule\'s actions, or the rule out of the watch '
        f"file: {run}/watch.json for this run, the deployment's own file for all runs."
    )


def _rule(alert: Alert) -> str:
    name, kind = alert.rule_configuration_name, alert.rule
    return name if name == kind else f"{name} ({kind})"


def _facts(alert: Alert) -> Iterator[tuple[str, str]]:
    yield "Job", clean(alert.training_job_name)
    yield "Run", clean(alert.run)
    yield "Step", _step(alert)
    yield "Tensor", clean(alert.tensor or "")
    yield "Worker", clean(alert.worker or "", 200)
    yield "Reason", clean(alert.reason or "", 200)
    yield "Numbers", cut(", ".join(_numbers(alert)), 1000)
    yield "Severity", alert.severity
    yield "Time", clean(alert.evaluated_at or "", 100)


def _step(alert: Alert) -> str:
    if alert.step is None:
        return ""
    if alert.mode is None or alert.mode_step is None:
        return str(alert.step)
    return f"{alert.step} ({clean(alert.mode, 20)} step {alert.mode_step})"


def _numbers(alert: Alert) -> Iterator[str]:
    for key, value in alert.evidence.items():
        if value is not None:
            yield f"{clean(key, 80)} = {number(value)}"


def _stopped(stop: Result | None) -> str:
    if stop is None:
        return "Nothing was stopped: this rule does not ask for it."
    again = " It will be tried again." if stop.outcome is Outcome.FAILED else ""
    return f"{_STOP[stop.outcome].capitalize()}: {clean(stop.detail)}.{again}"


def _headline(start: str, alert: Alert, end: str, limit: int) -> str:
    """``start: rule in job at step n end`` in ASCII; long names give way, the end stays."""
    at = "" if alert.step is None else f" at step {alert.step}"
    rule = ascii_only(alert.rule_configuration_name)
    job = ascii_only(alert.training_job_name)
    room = limit - len(f"{start}:  in {at}{end}")
    rule = cut(rule, max(room // 2, room - len(job)))
    return f"{start}: {rule} in {cut(job, room - len(rule))}{at}{end}"
