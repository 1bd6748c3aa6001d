"""An alert in one line: the subject of an e-mail, the text of an SMS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tocsin.actions.request import ActionOutcome, Request
from tocsin.events import MOST_SEVERE_FIRST, LastGood, RunSummary, StatusChange
from tocsin.model import RuleStatus, Severity
from tocsin.tensors import step_text
from tocsin.words import ascii_only, clean, cut, number

STOPPED = {
    ActionOutcome.DONE: "stop requested",
    ActionOutcome.ALREADY_STOPPED: "job already stopped",
    ActionOutcome.REFUSED: "stop refused",
    ActionOutcome.FAILED: "stop failed",
    ActionOutcome.DRY_RUN: "dry run",
}
REPEAT = "repeat_interval"

_SUBJECT = 99
_SMS = 159


def subject(request: Request) -> str:
    """Return one line of fewer than 100 ASCII characters, as SNS wants it."""
    if request.summary:
        return _ending(request.summary, _SUBJECT)
    end = "".join(f"; {part}" for part in _remarks(request))
    return _headline(f"Tocsin {_kind(request)}", request, end, _SUBJECT)


def short(request: Request) -> str:
    """Fewer than 160 ASCII characters, so that it stays one SMS."""
    if request.summary:
        return _ending(request.summary, _SMS)
    end = "".join(f". {part.capitalize()}" for part in _remarks(request))
    start = "Tocsin" if request.firing else f"Tocsin {_kind(request)}"
    text = _headline(start, request, f"{end}." if end else "", _SMS)
    if not request.firing:
        return text
    for more, between in ((next(numbers(request.alert), ""), " "), (_good(request), ". ")):
        longer = f"{text}{between}{ascii_only(more)}"
        text = longer if more and len(longer) <= _SMS else text
    return text


def severity(request: Request) -> Severity:
    """Return the worst severity among the alerts that fire, or are resolved."""
    return min((alert.severity for alert in request.about), key=MOST_SEVERE_FIRST.index)


def numbers(alert: StatusChange) -> Iterator[str]:
    """Yield the evidence, one ``name = number`` after the other."""
    for key, value in alert.evidence.items():
        if value is not None:
            yield f"{clean(key, 80)} = {number(value)}"


def last_good(alerts: Iterable[StatusChange]) -> LastGood | None:
    """Return the state before the first sign of what fires; None where no alert has it."""
    found = [each.last_good for each in alerts if each.last_good]
    return min(found, key=lambda good: good.first_sign, default=None)


def saved(alerts: Iterable[StatusChange], stop: ActionOutcome | None) -> str:
    """Return what the stop of the job saves, in words; empty if it is not known or not stopped."""
    if stop not in (ActionOutcome.DONE, ActionOutcome.ALREADY_STOPPED):
        return ""
    found = next((each.stop_saves for each in alerts if each.stop_saves), None)
    return f"Not run: {found.text}" if found else ""


def _good(request: Request) -> str:
    good = last_good(request.firing)
    if good is None or good.step is None:
        return ""
    checkpoint = "" if good.checkpoint_step is None else f", checkpoint {good.checkpoint_step}"
    return f"Last good step {good.step}{checkpoint}."


def _kind(request: Request) -> str:
    if request.firing:
        return severity(request).value
    return "resolved" if request.resolved else "withdrawn"


def _remarks(request: Request) -> list[str]:
    """Remarks after the rules that fired, or are resolved."""
    if not request.firing:
        why = request.alert.reason if not request.resolved else None
        ongoing = [f"{len(request.ongoing)} still firing"] if request.ongoing else []
        return [*([ascii_only(why)] if why else []), *ongoing]
    repeat = ["still firing"] if request.reason == REPEAT else []
    stop = [STOPPED[request.stop.outcome]] if request.stop else []
    return repeat + stop


def _headline(start: str, request: Request, end: str, limit: int) -> str:
    """``start: rule in job at step n end`` in ASCII; long names give way, the end stays."""
    alert = request.alert
    others = len(request.about) - 1
    more = f" and {others} more" if others else ""
    at = "" if alert.step is None else f" at {step_text(alert.run, alert.step)}"
    rule = ascii_only(alert.rule_configuration_name)
    job = ascii_only(alert.training_job_name)
    room = limit - len(f"{start}: {more} in {at}{end}")
    rule = cut(rule, max(room // 2, room - len(job)))
    return f"{start}: {rule}{more} in {cut(job, room - len(rule))}{at}{end}"


def _ending(summary: RunSummary, limit: int) -> str:
    """``Tocsin summary: job: status (rules that fired)`` in ASCII."""
    fired = [
        each.rule_configuration_name
        for each in summary.debug_rule_evaluation_statuses
        if each.rule_evaluation_status is RuleStatus.ISSUES_FOUND
    ]
    status = summary.rule_evaluation_status or "no rules"
    job, start = ascii_only(summary.training_job_name), "Tocsin summary: "
    if not fired:
        end = f": {status}"
        return f"{start}{cut(job, limit - len(start + end))}{end}"
    more = f" and {len(fired) - 1} more" if len(fired) > 1 else ""
    rule = ascii_only(fired[0])
    room = limit - len(f"{start}: {status} ({more})")
    rule = cut(rule, max(room // 2, room - len(job)))
    return f"{start}{cut(job, room - len(rule))}: {status} ({rule}{more})"
