"""The rules, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tocsin.cli._look import table
from tocsin.cli._output import Document
from tocsin.cli._text import plain


def print_rules(document: Document, console: Console) -> None:
    """All rules, a line each."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for rule in document["rules"]:
        grid.add_row(plain(rule["name"]), plain(rule["summary"]))
    console.print(grid)
    console.print(Text("\n`tocsin rules NAME` tells all of one.", "dim"))


def print_rule(document: Document, console: Console) -> None:
    """One rule: what it says, what it takes, what it reads, what to do when it fires."""
    console.print(plain(document["name"], "bold"))
    for paragraph in document["description"].split("\n\n"):
        console.print(Padding(_prose(paragraph), (0, 0, 1, 0)))
    for title, rows in (
        ("parameter", document["parameters"]),
        ("option of every rule", document["options"]),
    ):
        if rows:
            console.print(_settings(title, rows))
            console.print()
    console.print(_reads(document["reads"]))
    for title, text in (("Why it happens", "causes"), ("What to do", "advice")):
        if document[text]:
            console.print(Text(f"\n{title}", "bold"))
            console.print(_prose(document[text]))
    if not document["profiles"]:
        console.print(Text("\nIt watches only where a watch file or --rule names it.", "dim"))


def _prose(text: str) -> Text:
    """A paragraph to be wrapped anew, with what stands in double backticks set apart."""
    pieces = " ".join(text.split()).split("``")
    return Text.assemble(*(plain(piece, "cyan" * (at % 2)) for at, piece in enumerate(pieces)))


def _settings(title: str, rows: list[Document]) -> Table:
    grid = table()
    grid.add_column(title, style="cyan", no_wrap=True)
    for profile in rows[0]["defaults"]:
        grid.add_column(profile)
    grid.add_column("meaning")
    for row in rows:
        kind = f" [{row['type']}]" if "type" in row else ""
        values = [plain(_value(value)) for value in row["defaults"].values()]
        grid.add_row(plain(row["name"]), *values, _prose(row["meaning"]) + plain(kind, "dim"))
    return grid


def _value(value: Any) -> str:
    if value is None or value in ((), ""):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reads(reads: Document) -> Text:
    lines = [Text("Reads", "bold")]
    for read in reads["tensors"]:
        what = ["values"] * read["values"] + read["fields"] * (not read["values"]) + read["detail"]
        back = f", and {read['back']} earlier saves" if read["back"] else ""
        lines.append(plain(f"{read['selects']}: {', '.join(what) or 'that it was saved'}{back}"))
    lines += [plain(f"the same of run {run}") for run in reads["runs"]]
    if reads["time"]:
        lines.append(Text("the passing of time"))
    if reads["whole_run"]:
        lines.append(Text("the run up to the step, as it likes"))
    return Text("\n").join(lines)
