"""A list of runs as a table, and the runs in a local folder. Knows no AWS."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tocsin.cli.display import styled, table
from tocsin.cli.errors import CommandError
from tocsin.cli.not_judged import nothing_judged
from tocsin.cli.output import Document, notes, progress
from tocsin.cli.place import runs_in
from tocsin.cli.run_folder import RunFolder
from tocsin.cli.screen import ICONS, ago
from tocsin.cli.verdicts import STYLES, status_text
from tocsin.evaluation import Checkpoint, check, document, state_of
from tocsin.events import worst
from tocsin.model import RuleStatus
from tocsin.tensors import INDEX, open_storage, step_text

Look = Callable[[], Document]
"""Returns the JSON of ``tocsin status``, and reads what is new since the last call."""


def folder_look(folder: Path) -> Look:
    """Judge the runs in a local folder, look by look."""
    runs = RunFolder(folder)

    def look() -> Document:
        with progress("evaluating") as advance:
            views = runs.look(advance)
        found = (runs.runs[name].checkpoint for name in views)
        rows = [row(one, datetime.fromtimestamp(one.last_time, UTC)) for one in found]
        return {"runs": sorted(rows, key=lambda run: run["LastModifiedTime"], reverse=True)}

    return look


def runs_below(folder: Path) -> Document:
    """Return the JSON of ``tocsin status FOLDER``: the runs in a local folder, judged here and now.

    Raises CommandError if there are none.
    """
    found = list(runs_in(folder))
    if not found:
        raise CommandError(f"{folder}: no run is in this folder")
    runs = []
    with progress("evaluating") as advance:
        for done, path in enumerate(found, start=1):
            storage = open_storage(path)
            checkpoint, report = check(storage)
            notes(report.log)
            newest = max((item.modified for item in storage.list(INDEX)), default=0.0)
            runs.append(row(checkpoint, datetime.fromtimestamp(newest, UTC)))
            advance(done, len(found))
    return {"runs": runs}


def row(checkpoint: Checkpoint, modified: datetime) -> Document:
    """Return a run in that list. ``modified``: when its checkpoint, or its newest file, was
    written."""
    known = document(checkpoint)
    status = worst(record.status for record in checkpoint.rules.values())
    return {
        "job": known["job"],
        "run": known["run"],
        "finished": known["finished"],
        "TrainingJobStatus": known["TrainingJobStatus"],
        "last_step": known["steps"]["last"],
        "RuleEvaluationStatus": status.value if status else None,
        "judged": not nothing_judged(known),
        "LastModifiedTime": modified.astimezone(UTC).isoformat(timespec="seconds"),
    }


def runs_table(document: Document, height: int, now: datetime) -> Table:
    """Return a line for each run, as many as fit."""
    grid = table()
    for name in ("status", "job", "step", "updated"):
        grid.add_column(name, no_wrap=True, overflow="ellipsis")
    for run in document["runs"][: max(1, height - 4)]:
        status = run["RuleEvaluationStatus"]
        icon, style = (
            (ICONS[RuleStatus(status)], STYLES[RuleStatus(status)]) if status else ("–", "")
        )
        age = (now - datetime.fromisoformat(run["LastModifiedTime"])).total_seconds()
        grid.add_row(
            Text.assemble((f"{icon} ", style), status_text(status, judged=run["judged"])),
            styled(run["job"], "bold"),
            "-" if run["last_step"] is None else str(run["last_step"]),
            f"{ago(age)} ago, {state_of(run)}",
        )
    return grid


def print_runs(document: Document, console: Console) -> None:
    """Print three lines for each run."""
    if not document["runs"]:
        console.print("no run has been evaluated yet")
        return
    for run in document["runs"]:
        status = status_text(run["RuleEvaluationStatus"], judged=run["judged"])
        line = Text.assemble(status, "  ", styled(run["job"], "bold"))
        console.print(line, soft_wrap=True)  # a name stays whole, so that it can be copied
        last = run["last_step"]
        step = "no step yet" if last is None else step_text(run["run"], last)
        updated = run["LastModifiedTime"][:16].replace("T", " ")
        console.print(f"  {step}, {state_of(run)}, {updated} UTC")
        console.print(Text("  ").append_text(styled(run["run"], "dim")), soft_wrap=True)
