"""Shows the demo on a terminal, event by event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from tocsin.cli.verdicts import print_findings
from tocsin.events import ACTION_TAKEN, STATUS_CHANGE

from local.events import Event
from local.scenarios import Scenario

_COLOURS = {
    "IssuesFound": "bold red",
    "NoIssuesFound": "green",
    "InProgress": "cyan",
    "NotApplicable": "dim",
    "Error": "magenta",
    "Stopped": "yellow",
}


_QUIET = ("NoIssuesFound", "NotApplicable")


class Narrator:
    """Writes to a rich console, each line with the seconds since the beginning."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = Console(quiet=True) if quiet else console
        self._began = time.monotonic()
        self._last_action = ""

    def say(self, what: str) -> None:
        self._line("…", what)

    def stack(self, description: Mapping[str, Any]) -> None:
        self._line("✓", f"deployed: bucket {description['bucket']}, bus {description['bus']}")

    def begin(self, scenario: str, story: Scenario, name: str) -> None:
        planned = f", {story.planned_steps} steps planned" if story.planned_steps else ""
        self._line("▶", f"[bold]{scenario}[/]: {story.description}")
        self._line("▶", f"job {name}{planned}")

    def event(self, event: Event) -> None:
        """One event of the buses."""
        detail = event["detail"]
        if event["detail-type"] == STATUS_CHANGE:
            status = detail["RuleEvaluationStatus"]
            if status in _QUIET and detail["PreviousStatus"] == "InProgress":
                return  # of each rule at the end, where the findings count them
            rule = detail["RuleConfigurationName"]
            change = f"{rule}: {detail['PreviousStatus']} → [{_COLOURS[status]}]{status}[/]"
            at = f"at step {detail['Step']}: " if status == "IssuesFound" else ""
            self._line("●", f"{change} {at}{_unmarked(detail['StatusDetails'])}")
        elif event["detail-type"] == ACTION_TAKEN:
            action = f"{detail['Action']} {detail['Outcome']}: {_unmarked(detail['Detail'])}"
            if action != self._last_action:  # an action for several rules has an event for each
                self._line("➜", action)
            self._last_action = action
        else:
            status, secondary = detail["TrainingJobStatus"], detail["SecondaryStatus"]
            also = f", {secondary}" if secondary != status else ""
            failure = detail.get("FailureReason", "")
            also += f": {_unmarked(failure)}" if failure else ""
            self._line("⚙", f"SageMaker: {status}{also}")

    def end(self, result: Mapping[str, Any], story: Scenario) -> None:
        """Show the results."""
        self._console.print()
        print_findings({**result, "workers": ()}, self._console, hint=False)
        if mail := result["email"]:
            title = f"e-mail: {mail['subject']}"
            self._console.print(Panel(Text(mail["body"].strip()), title=Text(title), expand=False))
            self._console.print(f"Its links end with the demo; the page is {result['report']}")
        if result["sms"]:
            self._console.print(Panel(Text(result["sms"]), title="SMS", expand=False))
        self._console.print(Padding(_facts(result, story), (1, 0)))

    def _line(self, sign: str, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/] {sign} {text}")


def _facts(result: Mapping[str, Any], story: Scenario) -> Table:
    table = Table.grid(padding=(0, 2))
    if story.planned_steps:
        done, planned = result["steps_done"], story.planned_steps
        saved = f", {100 * (planned - done) / planned:.0f} % saved" if result["stopped"] else ""
        table.add_row("steps", f"{done} of {planned} planned{saved}")
    if again := result.get("relaunched"):
        rate = ", ".join(f"{key} {value}" for key, value in again["hyperparameters"].items())
        table.add_row(
            "relaunched",
            f"{again['job']} from step {again['from_step']} with {rate}: {again['status']}, "
            f"{again['steps_done']} of {again['planned_steps']} steps",
        )
    if result["alerts"]:
        table.add_row("messages", str(result["messages"]))
        table.add_row("decided", _reasons(result["alerts"], "send"))
        if held := _reasons(result["alerts"], "hold"):
            table.add_row("held back", held)
    if metric := result["metric"]:
        by = ", ".join(f"{name} {value}" for name, value in metric["Dimensions"].items())
        table.add_row(
            "metric", f"{metric['Namespace']}/{metric['MetricName']} {metric['Sum']:g} ({by})"
        )
    if (latency := result["latency_ms"]["index_to_stop"]) is not None:
        table.add_row("bad step's index file → stop", f"{latency:.0f} ms")
    if "fleet" in result:
        table.add_row("runs on the dashboard, as HTML", Text(result["fleet"]))
    agrees = "the same verdicts" if result["check_agrees"] else "[red]other verdicts[/]"
    table.add_row("tocsin check, over the same run", agrees)
    table.add_row("report, as a page", Text(result["report"], overflow="fold"))
    return table


def _reasons(alerts: list[Mapping[str, Any]], decision: str) -> str:
    """Counts of a decision, by action and reason."""
    found = Counter(
        f"{alert['action']} {alert['reason']}" for alert in alerts if alert["decision"] == decision
    )
    return ", ".join(f"{what} ×{times}" for what, times in found.items())


def _unmarked(text: str) -> str:
    """Text of a run, without markup."""
    return text.replace("[", r"\[")
