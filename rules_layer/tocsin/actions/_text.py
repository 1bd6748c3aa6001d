"""The words of e-mails: plain, and useful to whoever is woken by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from tocsin.actions import _commands
from tocsin.actions._about import about
from tocsin.actions._headline import REPEAT, STOPPED, numbers
from tocsin.actions._measure import measure
from tocsin.actions._ports import Ports
from tocsin.actions._request import Outcome, Request
from tocsin.actions._sparkline import curve
from tocsin.events import StatusChange
from tocsin.words import clean, cut

MOST_BYTES = 60_000
_IN_FULL = 5
_SHOWN = 20


def email(request: Request, ports: Ports) -> str:
    """The whole story: what, where, the numbers, what was done, what to look at, how to silence.

    At most 60,000 bytes of UTF-8; where it would be more, details give way and the commands stay.
    """
    first = [_opening(request, ports.now()), _stopped(request)]
    details = [
        *_fired(request.firing, ports),
        _list("Resolved", request.resolved),
        _list("Still firing, told before", request.ongoing),
    ]
    last = [
        columns([("Job", clean(request.job)), ("Run", clean(request.run, 1100))]),
        _commands.see_more(request.run, ports.links),
        _commands.silence(request) if request.firing else "",
    ]
    return within(first, details, last)


def within(first: Iterable[str], details: Iterable[str], last: Iterable[str]) -> str:
    """The paragraphs as one text; the ``details`` are cut where it would be too long."""
    start, middle, end = (_paragraphs(part) for part in (first, details, last))
    room = MOST_BYTES - len(f"{start}{end}\n\n[cut]\n\n\n".encode())
    if len(middle.encode()) > room:
        middle = middle.encode()[: max(room, 0)].decode(errors="ignore") + "\n[cut]"
    return _paragraphs([start, middle, end]) + "\n"


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _opening(request: Request, now: datetime) -> str:
    alerts = request.firing or request.resolved
    one = len(alerts) == 1
    who = clean(_rule(alerts[0]), 200) if one else f"{len(alerts)} rules"
    what = "fired" if request.firing else "is resolved" if one else "are resolved"
    still = _still(request.alert, now) if request.reason == REPEAT else ""
    return f"{who} {what} in training job {clean(request.job, 100)}{still}."


def _still(alert: StatusChange, now: datetime) -> str:
    """How long it has been so; the text of the event may hold any time, or none."""
    try:
        fired = datetime.fromisoformat(alert.evaluated_at or "")
    except ValueError:
        return ": still so"
    since = now - (fired if fired.tzinfo else fired.replace(tzinfo=UTC))
    minutes = max(int(since.total_seconds() // 60), 0)
    return f": still so after {_duration(minutes)}"


def _duration(minutes: int) -> str:
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def _fired(alerts: Sequence[StatusChange], ports: Ports) -> Iterator[str]:
    for place, alert in enumerate(alerts[:_IN_FULL], 1):
        if len(alerts) > 1:
            yield f"{place}. {clean(_rule(alert), 200)}"
        known = about(alert.rule)
        yield clean(known.meaning, 300)
        yield clean(alert.status_details)
        yield columns(_facts(alert, ports))
        yield f"What to look at: {clean(known.advice)}" if known.advice else ""
    yield _list("Fired, too", alerts[_IN_FULL:], _SHOWN - _IN_FULL)


def _list(title: str, alerts: Sequence[StatusChange], most: int = _SHOWN) -> str:
    """One line for each of the first, and how many more there are."""
    if not alerts:
        return ""
    lines = [f"  {_line(alert)}" for alert in alerts[:most]]
    more = [f"  and {len(alerts) - most} more"] if len(alerts) > most else []
    return "\n".join([f"{title}:", *lines, *more])


def _line(alert: StatusChange) -> str:
    at = "" if alert.step is None else f" at step {alert.step}"
    details = clean(alert.status_details, 200)
    return f"{clean(_rule(alert), 200)}, {alert.severity}{at}{': ' if details else ''}{details}"


def _rule(alert: StatusChange) -> str:
    name, kind = alert.rule_configuration_name, alert.rule
    return name if name == kind else f"{name} ({kind})"


def columns(facts: Iterable[tuple[str, str]]) -> str:
    """One line for each that has a text."""
    return "\n".join(f"{label + ':':<10}{text}" for label, text in facts if text)


def _facts(alert: StatusChange, ports: Ports) -> Iterator[tuple[str, str]]:
    yield "Step", _step(alert)
    yield "Tensor", clean(alert.tensor or "", 500)
    yield "Worker", clean(alert.worker or "", 200)
    yield "Reason", clean(alert.reason or "", 200)
    yield "Numbers", cut(", ".join(numbers(alert)), 500)
    yield "Recent", curve(ports.recent(alert), measure(alert))
    yield "Severity", alert.severity
    yield "Time", clean(alert.evaluated_at or "", 100)


def _step(alert: StatusChange) -> str:
    if alert.step is None:
        return ""
    if alert.mode is None or alert.mode_step is None:
        return str(alert.step)
    return f"{alert.step} ({clean(alert.mode, 20)} step {alert.mode_step})"


def _stopped(request: Request) -> str:
    stop = request.stop
    if stop is None:
        asked = any("stop" in alert.actions for alert in request.firing)
        told = request.firing and not asked
        return "Nothing was stopped: no rule here asks for it." if told else ""
    again = " It will be tried again." if stop.outcome is Outcome.FAILED else ""
    return f"{STOPPED[stop.outcome].capitalize()}: {clean(stop.detail)}.{again}"
