"""The e-mail about rules that fire or are resolved: plain, and useful at night."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tocsin.actions.curve import curve, measure
from tocsin.actions.email_parts import (
    columns,
    fitting,
    how_to_silence,
    machine_at_that_time,
    see_more,
)
from tocsin.actions.headline import REPEAT, STOPPED, numbers, saved
from tocsin.actions.ports import Lookups
from tocsin.actions.request import ActionOutcome, Request
from tocsin.events import StatusChange
from tocsin.tensors import is_machine_run, step_text
from tocsin.words import clean, cut

_IN_FULL = 5
_SHOWN = 20


@dataclass(frozen=True)
class Explanation:
    """The meaning of a rule that fires, advice on what to look at next, and the rule's page."""

    meaning: str = ""
    advice: str = ""
    page: str = ""


def alert_email(request: Request, lookups: Lookups) -> str:
    """Return the text of an alert: rule, place, numbers, outcome, advice, and how to silence it.

    At most 60,000 bytes of UTF-8; where it would be more, details give way and the commands stay.
    """
    first = [_opening(request, lookups.now()), _stopped(request), _relaunched(request)]
    details = [
        _likely(request.cause),
        *_fired(request, lookups),
        machine_at_that_time(request.run, lookups) if request.firing else "",
        _list("Resolved", request.resolved),
        _list("Withdrawn, not judged healthy", request.withdrawn),
        _list("Still firing, notified before", request.ongoing),
    ]
    last = [
        columns([("Job", clean(request.job)), ("Run", clean(request.run, 1100))]),
        see_more(request.run, lookups),
        how_to_silence(request) if request.firing else "",
    ]
    return fitting(first, details, last)


def explain(rule: str, tensor: str | None = None) -> Explanation:
    """Return the rule's own words; empty if the rule cannot be found: the e-mail goes out
    anyway."""
    try:
        from tocsin.rules import advice_for, find_rule, page_of

        found = find_rule(rule)
    except Exception:  # noqa: BLE001 - rules written by others are imported here
        return Explanation()
    if found is None:
        return Explanation()
    meaning = (inspect.getdoc(found) or "").partition("\n")[0]
    return Explanation(meaning, advice_for(found, tensor), page_of(found))


def _opening(request: Request, now: datetime) -> str:
    alerts = request.about
    one = len(alerts) == 1
    rules = clean(_rule(alerts[0]), 200) if one else f"{len(alerts)} rules"
    be = "is" if one else "are"
    after = ""
    if request.firing and request.reason == REPEAT:
        did, after = f"{be} still firing", _after(request.alert, now)
    else:
        over = "resolved" if request.resolved else "withdrawn, and not judged healthy,"
        did = "fired" if request.firing else f"{be} {over}"
    return f"{rules} {did} in training job {clean(request.job, 100)}{after}."


def _after(alert: StatusChange, now: datetime) -> str:
    """Return how long ago it fired; the text of the event may hold any time, or none."""
    try:
        fired = datetime.fromisoformat(alert.evaluated_at or "")
    except ValueError:
        return ""
    since = now - (fired if fired.tzinfo else fired.replace(tzinfo=UTC))
    minutes = max(int(since.total_seconds() // 60), 0)
    return f" after {_duration(minutes)}"


def _duration(minutes: int) -> str:
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def _likely(cause: StatusChange | None) -> str:
    """The finding outside this message that explains its alerts."""
    return f"Likely cause: {_line(cause)}" if cause else ""


def _fired(request: Request, lookups: Lookups) -> Iterator[str]:
    below = request.explained
    explained = [each for each in request.firing if each.rule_configuration_name in below]
    alerts = [each for each in request.firing if each.rule_configuration_name not in below]
    for place, alert in enumerate(alerts[:_IN_FULL], 1):
        if len(request.firing) > 1:
            yield f"{place}. {clean(_rule(alert), 200)}"
        known = explain(alert.rule, alert.tensor)
        yield clean(known.meaning, 300)
        yield clean(alert.status_details)
        yield columns(_facts(alert, lookups))
        yield f"What to do: {clean(known.advice)}" if known.advice else ""
        yield f"More: {known.page}" if known.page else ""
    yield _list("Also fired", alerts[_IN_FULL:], _SHOWN - _IN_FULL)
    yield _list("Explained by these", explained)


def _list(title: str, alerts: Sequence[StatusChange], most: int = _SHOWN) -> str:
    """One line for each of the first, and how many more there are."""
    if not alerts:
        return ""
    lines = [f"  {_line(alert)}" for alert in alerts[:most]]
    more = [f"  and {len(alerts) - most} more"] if len(alerts) > most else []
    return "\n".join([f"{title}:", *lines, *more])


def _line(alert: StatusChange) -> str:
    at = "" if alert.step is None else f" at {step_text(alert.run, alert.step)}"
    details = clean(alert.status_details, 200)
    return f"{clean(_rule(alert), 200)}, {alert.severity}{at}{': ' if details else ''}{details}"


def _rule(alert: StatusChange) -> str:
    name, kind = alert.rule_configuration_name, alert.rule
    return name if name == kind else f"{name} ({kind})"


def _facts(alert: StatusChange, lookups: Lookups) -> Iterator[tuple[str, str]]:
    yield "Step", _step(alert)
    yield "Tensor", clean(alert.tensor or "", 500)
    yield "Worker", clean(alert.worker or "", 200)
    yield "Reason", clean(alert.reason or "", 200)
    yield "Numbers", cut(", ".join(numbers(alert)), 500)
    yield "Last good", clean(alert.last_good.text if alert.last_good else "", 1200)
    yield "Recent", curve(lookups.recent(alert), measure(alert))
    yield "Severity", alert.severity
    yield "Time", clean(alert.evaluated_at or "", 100)


def _step(alert: StatusChange) -> str:
    if alert.step is None:
        return ""
    if is_machine_run(alert.run):
        return step_text(alert.run, alert.step).removeprefix("step ")
    if alert.mode is None or alert.mode_step is None:
        return str(alert.step)
    return f"{alert.step} ({clean(alert.mode, 20)} step {alert.mode_step})"


def _stopped(request: Request) -> str:
    stop = request.stop
    if stop is None:
        asked = any("stop" in alert.actions for alert in request.firing)
        if asked or not request.firing:
            return ""
        return "The job was not stopped: no rule in this message has the action stop."
    again = " It will be retried." if stop.outcome is ActionOutcome.FAILED else ""
    left = saved(request.firing, stop.outcome)
    more = again or (f" {left}." if left else "")
    return f"{STOPPED[stop.outcome].capitalize()}: {clean(stop.detail)}.{more}"


def _relaunched(request: Request) -> str:
    """Return what is known of starting the job again; empty where nobody asks for that."""
    again = request.relaunch
    if again is None:
        return ""
    outcome = "" if again.outcome is ActionOutcome.DONE else f" {again.outcome}"
    return f"Relaunch{outcome}: {clean(again.detail)}."
