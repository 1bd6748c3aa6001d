"""Why something was told or not: the log of a run's alerts, for machines and for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from tocsin.alerts import Group, alerts_document
from tocsin.cli._look import table
from tocsin.cli._output import Document
from tocsin.cli._text import plain

_STYLES = {"done": "green", "refused": "yellow", "failed": "bold red", "dry_run": "cyan"}


def alerts_of(group: Group) -> list[Document]:
    """The log with times in ISO 8601, the oldest first."""
    rows = alerts_document(group)
    return [
        {**row, "at": utc(datetime.fromtimestamp(entry.at, UTC))}
        for row, entry in zip(rows, group.log, strict=True)
    ]


def latest(alerts: Sequence[Document]) -> list[Document]:
    """The last decision for each rule and action, the oldest first."""
    last: dict[tuple[str, str], Document] = {}
    for alert in alerts:
        key = (alert["RuleConfigurationName"], alert["action"])
        last.pop(key, None)  # a later decision goes behind those of others
        last[key] = alert
    return list(last.values())


def print_alerts(alerts: Sequence[Document], console: Console) -> None:
    """A row for each decision."""
    grid = table()
    grid.add_column("at (UTC)", no_wrap=True)
    grid.add_column("rule", overflow="fold")
    grid.add_column("action", overflow="fold")
    grid.add_column("decision", overflow="fold", min_width=len("first_notification"))
    grid.add_column("outcome", overflow="fold")
    for alert in alerts:
        grid.add_row(
            plain(people(alert["at"])),
            plain(alert["RuleConfigurationName"] or "(the run)"),
            plain(alert["action"]),
            plain(f"{alert['decision']}: {alert['reason']}"),
            _outcome(alert),
        )
    console.print(grid)


def utc(time: datetime) -> str:
    """``time`` in ISO 8601, to the second: ``2026-12-01T08:00:00Z``."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def people(time: str) -> str:
    """The same without what nobody reads: ``2026-12-01 08:00:00``."""
    return time.removesuffix("Z").replace("T", " ")


def _outcome(alert: Document) -> Text:
    """What came of it; of what is held back, only why."""
    pending = "pending" if alert["decision"] == "send" else ""
    outcome = str(alert["outcome"] or pending)
    text = plain(outcome, _STYLES.get(outcome, ""))
    if alert["detail"]:
        text.append_text(plain(f"{': ' if outcome else ''}{alert['detail']}"))
    return text
