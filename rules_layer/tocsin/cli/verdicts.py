"""Prints the verdicts of ``tocsin check`` and ``tocsin status``: the findings first."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tocsin.cli.display import age, print_facts, styled, table
from tocsin.cli.findings import Finding, findings, summary, without_finding
from tocsin.cli.not_judged import NAME_THE_LOSS, NOT_JUDGED, names_not_judged, no_loss
from tocsin.cli.output import Document
from tocsin.evaluation import state_of
from tocsin.events import LastGood, NotRun
from tocsin.model import RuleStatus
from tocsin.report import too_early
from tocsin.rules import advice_for, find_rule
from tocsin.tensors import step_text

_FEW = 5  # rules, that somebody has chosen: all are shown
STYLES = {
    RuleStatus.ISSUES_FOUND: "bold red",
    RuleStatus.ERROR: "bold magenta",
    RuleStatus.STOPPED: "yellow",
    RuleStatus.IN_PROGRESS: "cyan",
    RuleStatus.NO_ISSUES_FOUND: "green",
    RuleStatus.NOT_APPLICABLE: "bright_black",
}


def status_text(status: str | None, *, judged: bool = True) -> Text:
    """Return the status; "not judged" for a rule or run without a judged step."""
    if not judged and status not in (None, "NotApplicable", "Error"):
        return Text(NOT_JUDGED, "yellow")
    return Text(status or "-", STYLES[RuleStatus(status)] if status else "")


def print_verdicts(document: Document, console: Console, *, every: bool = False) -> None:
    """Print the findings and a line about the other rules; these in full if ``every``.

    A missing loss comes first.
    """
    if lacking := no_loss(document):
        console.print(Text(lacking, "bold yellow"))
        console.print(f"{NAME_THE_LOSS}\nfor each framework: docs/hooks\n", soft_wrap=True)
    print_facts(_header(document), console)
    if early := too_early(document):
        console.print(Text(f"\n{early}", "bold yellow"))
    print_findings(document, console, every=every)


def print_findings(
    document: Document, console: Console, *, every: bool = False, hint: bool = True
) -> None:
    """Print the part of ``print_verdicts`` that is about rules.

    hint: whether to name the option that shows all.
    """
    several = len(document["workers"]) > 1
    for finding in findings(document):
        console.print()
        _print_finding(finding, console, document["run"], several=several)
    rest = without_finding(document)
    if not rest:
        return
    console.print()
    every = every or len(document["rules"]) <= _FEW
    if every:
        console.print(_table(rest, names_not_judged(document)))
        console.print()
    console.print(styled(summary(document) + " · --all lists them" * (hint and not every)))


def _header(document: Document) -> dict[str, str]:
    steps = document["steps"]
    evaluated = "none is complete yet"
    if steps["evaluated"]:
        ends = (step_text(document["run"], steps[end]) for end in ("first", "last"))
        first, last = (end.removeprefix("step ") for end in ends)
        evaluated = f"{steps['evaluated']} ({first} … {last})"
    rows = {
        "run": document["run"],
        "job": document["job"],
        "state": _state(document),
        "steps": evaluated,
        "workers": ", ".join(document["workers"][:4]),
    }
    if good := document.get("last_good"):
        rows["go back"] = msgspec.convert(good, LastGood).text
    if left := document.get("not_run"):
        rows["not run"] = msgspec.convert(left, NotRun).text
    if len(document["workers"]) > 4:
        rows["workers"] = f"{len(document['workers'])}, {rows['workers']} …"
    return rows


def _state(document: Document) -> str:
    """Return whether the run has ended; one that has saved nothing for long may train no more."""
    if (silent := document.get("silent")) is not None:
        return f"silent for {age(silent)}, without an end marker"
    return state_of(document)


def _print_finding(finding: Finding, console: Console, run: str, *, several: bool) -> None:
    """Return the lines of a finding: rule, step, details, advice and explained findings."""
    rule = finding.rule
    line = Text("  ").join((status_text(rule["RuleEvaluationStatus"]), _name(rule)))
    where = _where(rule, several, run)
    if finding.likely:
        line = Text("  ").join((line, styled("likely cause", "bold yellow")))
    if line.cell_len + 2 + where.cell_len > console.width:
        console.print(line, soft_wrap=True)
        console.print(Padding(where, (0, 0, 0, 2)))
    else:
        console.print(Text("  ").join((line, where)) if where else line)
    if rule["StatusDetails"]:
        console.print(Padding(styled(rule["StatusDetails"]), (0, 0, 0, 2)))
    if advice := _advice(rule):
        console.print(Padding(styled(f"What to do: {advice}", "dim"), (0, 0, 0, 2)))
    for other in finding.explains:
        text = f"explains {other['RuleConfigurationName']}, {_where(other, several, run)}"
        details = f": {other['StatusDetails']}" if other["StatusDetails"] else ""
        console.print(Padding(styled(f"{text}{details}"), (0, 0, 0, 2)))


def _table(rules: list[Document], not_judged: set[str]) -> Table:
    grid = table()
    grid.add_column("status", no_wrap=True)
    grid.add_column("rule", overflow="fold")
    grid.add_column("violations", justify="right")
    for rule in rules:
        name = _name(rule)
        if rule["StatusDetails"]:
            name = Text.assemble(name, "\n", styled(rule["StatusDetails"]))
        judged = rule["RuleConfigurationName"] not in not_judged
        grid.add_row(status_text(rule["RuleEvaluationStatus"], judged=judged), name, _count(rule))
    return grid


def _name(rule: Document) -> Text:
    name = styled(rule["RuleConfigurationName"], "bold")
    if rule["Rule"] != rule["RuleConfigurationName"]:
        name.append_text(styled(f" ({rule['Rule']})"))
    return name


def _where(rule: Document, several: bool, run: str) -> Text:
    """The step of the first violation, its mode step if that differs, one of several workers,
    and the number of violations.
    """
    violation = rule["FirstViolation"]
    if violation is None:
        return Text("")
    where = step_text(run, violation["step"])
    if violation["mode_step"] != violation["step"]:
        where += f" ({violation['mode']} {violation['mode_step']})"
    if several and violation["worker"] is not None:
        where += f", {violation['worker']}"
    return styled(f"{where}, {_count(rule)}")


def _count(rule: Document) -> str:
    return f"{rule['Violations']} of {rule['DataPoints']}"


def _advice(rule: Document) -> str:
    if rule["RuleEvaluationStatus"] != "IssuesFound":
        return ""
    return advice_for(find_rule(rule["Rule"]), (rule["FirstViolation"] or {}).get("tensor"))
