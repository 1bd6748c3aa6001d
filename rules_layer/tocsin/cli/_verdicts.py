"""What rules say of a run: the table, the advice, and what it comes to."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tocsin.cli._look import facts, table
from tocsin.cli._not_judged import NAME_THE_LOSS, NOT_JUDGED, names_not_judged, no_loss
from tocsin.cli._output import Document
from tocsin.cli._text import plain
from tocsin.model import RuleStatus
from tocsin.rules import find_rule

STYLES = {
    RuleStatus.ISSUES_FOUND: "bold red",
    RuleStatus.ERROR: "bold magenta",
    RuleStatus.STOPPED: "yellow",
    RuleStatus.IN_PROGRESS: "cyan",
    RuleStatus.NO_ISSUES_FOUND: "green",
    RuleStatus.NOT_APPLICABLE: "bright_black",
}
"""From the status that is most urgent to the one that is least."""


def worst(statuses: Iterable[RuleStatus]) -> RuleStatus | None:
    """The most urgent of the statuses; None where there is none."""
    found = set(statuses)
    return next((status for status in STYLES if status in found), None)


def status_text(status: str | None, *, judged: bool = True) -> Text:
    """The status. Of a rule or run without a judged step it is "not judged", unless the status
    itself says so.
    """
    if not judged and status not in (None, "NotApplicable", "Error"):
        return Text(NOT_JUDGED, "yellow")
    return Text(status or "-", STYLES[RuleStatus(status)] if status else "")


def print_verdicts(document: Document, console: Console) -> None:
    """The document of ``tocsin check`` for people: first of all whether there was a loss."""
    if lacking := no_loss(document):
        console.print(Text(lacking, "bold yellow"))
        console.print(f"{NAME_THE_LOSS}\nfor each framework: docs/hooks\n")
    console.print(_header(document))
    console.print()
    console.print(_table(document))
    fired = [rule for rule in document["rules"] if rule["RuleEvaluationStatus"] == "IssuesFound"]
    advice = {name: text for name in (rule["Rule"] for rule in fired) if (text := _advice(name))}
    if advice:
        console.print(Text("\nWhat to do", "bold"))
        console.print(facts(advice))


def _header(document: Document) -> Table:
    steps = document["steps"]
    evaluated = "none is complete yet"
    if steps["evaluated"]:
        evaluated = f"{steps['evaluated']} ({steps['first']} … {steps['last']})"
    rows = {
        "run": document["run"],
        "job": document["job"],
        "state": "finished" if document["finished"] else "running",
        "steps": evaluated,
        "workers": ", ".join(document["workers"][:4]),
    }
    if len(document["workers"]) > 4:
        rows["workers"] = f"{len(document['workers'])}, {rows['workers']} …"
    return facts(rows)


def _table(document: Document) -> Table:
    several, without = len(document["workers"]) > 1, names_not_judged(document)
    grid = table()
    grid.add_column("status", no_wrap=True)
    grid.add_column("rule", overflow="fold")
    grid.add_column("first violation", overflow="fold")
    grid.add_column("violations", justify="right")
    for rule in document["rules"]:
        judged = rule["RuleConfigurationName"] not in without
        grid.add_row(
            status_text(rule["RuleEvaluationStatus"], judged=judged),
            _what(rule),
            _first(rule["FirstViolation"], several=several),
            f"{rule['Violations']} of {rule['DataPoints']}",
        )
    return grid


def _what(rule: Document) -> Group:
    name = plain(rule["RuleConfigurationName"], "bold")
    if rule["Rule"] != rule["RuleConfigurationName"]:
        name.append_text(plain(f" ({rule['Rule']})"))
    details = [plain(rule["StatusDetails"])] if rule["StatusDetails"] else []
    return Group(name, *details)


def _first(violation: Document | None, *, several: bool) -> Text:
    """Where it was seen: the step, the mode's own number if another, one of several workers."""
    if violation is None:
        return Text("-")
    lines = [f"step {violation['step']}"]
    if violation["mode_step"] != violation["step"]:
        lines.append(f"{violation['mode']} {violation['mode_step']}")
    if several and violation["worker"] is not None:
        lines.append(violation["worker"])
    return Text("\n").join(map(plain, lines))


def _advice(rule: str) -> str:
    found = find_rule(rule)
    return found.advice if found else ""
