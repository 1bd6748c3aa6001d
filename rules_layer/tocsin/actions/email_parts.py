"""Parts that all e-mails have: facts in columns, commands to paste, an end to their length."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Iterable

from tocsin.actions.ports import LINK_HOURS, Lookups
from tocsin.actions.request import Request
from tocsin.events import StatusChange
from tocsin.tensors import step_text
from tocsin.words import clean

MOST_BYTES = 60_000
_MOST_FINDINGS = 5
_LONGEST_GLOB = 256  # that a silence takes


def fitting(first: Iterable[str], details: Iterable[str], last: Iterable[str]) -> str:
    """Return the paragraphs as one text; the ``details`` are cut where it would be too long."""
    start, middle, end = (_paragraphs(part) for part in (first, details, last))
    mark = "\n[cut]"
    room = MOST_BYTES - len(f"{_paragraphs([start, mark, end])}\n".encode())
    if len(middle.encode()) > room:
        middle = middle.encode()[: max(room, 0)].decode(errors="ignore") + mark
    return _paragraphs([start, middle, end]) + "\n"


def columns(facts: Iterable[tuple[str, str]]) -> str:
    """Return one line for each fact that has a text."""
    return "\n".join(f"{label + ': ':<10}{text}" for label, text in facts if text)


def see_more(run: str, lookups: Lookups) -> str:
    """Commands to paste, the dashboard, and where the run's report opens."""
    # Quoted, because people paste it into a shell and others choose the names.
    quoted = shlex.quote(clean(run, 1100))
    lines = [
        "To see more:",
        f"  tocsin status {quoted} --actions",
        f"  tocsin check {quoted}",
        f"  {lookups.links.dashboard}",
    ]
    report = lookups.report(run)
    if report.page:
        lines += [
            "",
            "The report, ready within a minute of this message. Anyone with this link can open it",
            f"for up to {LINK_HOURS} hours:",
            f"  {report.page}",
        ]
    if report.console:
        lines += ["In the AWS console (sign-in required):", f"  {report.console}"]
    return "\n".join(line for line in lines if line != "  ")


def machine_at_that_time(run: str, lookups: Lookups) -> str:
    """Return the findings about the training's machines at present; empty where none are
    watched."""
    found = lookups.machine(run)
    if found is None:
        return ""
    if not found:
        return "The machine at that time: no machine rule fires."
    lines = [f"  {_finding(each)}" for each in found[:_MOST_FINDINGS]]
    more = len(found) - _MOST_FINDINGS
    return "\n".join(
        ["The machine at that time:", *lines, *([f"  and {more} more"] if more > 0 else [])]
    )


def _finding(alert: StatusChange) -> str:
    since = "" if alert.step is None else f" since {step_text(alert.run, alert.step)}"
    details = clean(alert.status_details, 500)
    name = clean(alert.rule_configuration_name, 200)
    return f"{name}, {alert.severity}{since}{': ' if details else ''}{details}"


def how_to_silence(request: Request) -> str:
    """Return how to silence the first rule, and all rules of the job if there are others."""
    job = _pattern(request.job)
    rule = _pattern(request.alert.rule_configuration_name)
    one = f"  tocsin silence add --job {job} --rule {rule} --for 2h --reason '…'"
    if len(request.firing) == 1:
        return f"To silence this for two hours:\n{one}"
    return (
        "To silence the first of them for two hours, or all of the job's rules:\n"
        f"{one}\n  tocsin silence add --job {job} --for 2h --reason '…'"
    )


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _pattern(name: str) -> str:
    """Return a quoted glob that matches the name, with ``?`` for untypable characters."""
    pattern = glob.escape(name)
    if len(pattern) > _LONGEST_GLOB:
        pattern = glob.escape(name[:80]) + "*"
    return shlex.quote("".join(char if char.isprintable() else "?" for char in pattern))
