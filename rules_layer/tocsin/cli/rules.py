"""``tocsin rules``: loads, lists and explains rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tocsin.cli.display import styled, table
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.custom import load_files, load_installed
from tocsin.rules import BadRule, describe, get_rule, rule_names, summary
from tocsin.watch import Watch

_ITEM = re.compile(r"^\* ", re.MULTILINE)


def load_rules(files: Sequence[str | Path] = ()) -> None:
    """Load the rules of installed packages and of ``files``, each a file or a folder.

    Raises CommandError if an installed package fails, BadRule if a file fails.
    """
    try:
        load_installed()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise CommandError(f"a package that offers rules cannot be loaded: {what}") from error
    for path in files:
        load_files(path)


def load_custom_rules(watch: Watch, file: str | Path) -> None:
    """Load the ``custom_rules`` of a watch file; their path is relative to the file.

    Raises BadRule.
    """
    if watch.custom_rules is None:
        return
    try:
        load_files(Path(file).parent / watch.custom_rules)
    except BadRule as error:
        raise BadRule(f"custom_rules: {error}") from error


def rules_document(files: Sequence[str | Path] = (), search: str = "") -> Document:
    """Return the JSON of ``tocsin rules``, with the rules of ``files``.

    search: words that a rule's name, description, causes or advice has, in any case. Rules that
    have them in name or summary come first.
    """
    load_rules(files)
    rules = [{"name": name, "summary": summary(get_rule(name))} for name in rule_names()]
    words = search.casefold().split()
    if not words:
        return {"rules": rules}
    at_once = [rule for rule in rules if _has(words, rule["name"], rule["summary"])]
    further = [rule for rule in rules if rule not in at_once and _has(words, *_texts(rule["name"]))]
    return {"rules": at_once + further}


def _texts(name: str) -> list[str]:
    known = describe(name)
    return [name, known["description"], known["causes"], known["advice"]]


def _has(words: Sequence[str], *texts: str) -> bool:
    text = " ".join(" ".join(texts).split()).casefold()
    return all(word in text for word in words)


def rule_document(name: str, files: Sequence[str | Path] = ()) -> Document:
    """Return the JSON of ``tocsin rules NAME``. Raises BadRule for an unknown name."""
    load_rules(files)
    return describe(name)


def print_rules(document: Document, console: Console) -> None:
    """Print rules, a line each."""
    if not document["rules"]:
        console.print("no rule has these words: try fewer, or `tocsin rules` for all rules")
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for rule in document["rules"]:
        grid.add_row(styled(rule["name"]), styled(rule["summary"]))
    console.print(grid)
    console.print(Text("\n`tocsin rules NAME` explains one of them.", "dim"))


def print_rule(document: Document, console: Console) -> None:
    """Print one rule: its description, parameters, inputs, and what to do when it fires."""
    console.print(styled(document["name"], "bold"))
    for paragraph in document["description"].split("\n\n"):
        console.print(Padding(_paragraph(paragraph), (0, 0, 1, 0)))
    for title, rows in (
        ("parameter", document["parameters"]),
        ("option of every rule", document["options"]),
    ):
        if rows:
            console.print(_settings(title, rows))
            console.print()
    console.print(_reads(document["reads"]))
    for title, text in (
        ("Why it happens", "causes"),
        ("What to do", "advice"),
        ("What to do with boosted trees", "advice_for_trees"),
    ):
        if document[text]:
            console.print(Text(f"\n{title}", "bold"))
            console.print(_paragraph(document[text]))
    if not document["profiles"]:
        console.print(Text("\nIt watches only if a watch file or --rule names it.", "dim"))


def _paragraph(text: str) -> Table:
    """Prose, with a line for each item of a list in it."""
    before, *items = _ITEM.split(text)
    grid = Table.grid()
    if before.strip():
        grid.add_row(_prose(before))
    if items:
        points = Table.grid()
        for item in items:
            points.add_row("* ", _prose(item))
        grid.add_row(points)
    return grid


def _prose(text: str) -> Text:
    """Text without its line breaks; text in double backticks is highlighted."""
    pieces = " ".join(text.split()).split("``")
    return Text.assemble(*(styled(piece, "cyan" * (at % 2)) for at, piece in enumerate(pieces)))


def _settings(title: str, rows: list[Document]) -> Table:
    grid = table()
    grid.add_column(title, style="cyan", no_wrap=True)
    for profile in rows[0]["defaults"]:
        grid.add_column(profile)
    grid.add_column("meaning")
    for row in rows:
        kind = f" [{row['type']}]" if "type" in row else ""
        values = [styled(_value(value)) for value in row["defaults"].values()]
        grid.add_row(styled(row["name"]), *values, _prose(row["meaning"]) + styled(kind, "dim"))
    return grid


def _value(value: Any) -> str:
    if value is None or value in ((), ""):
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def earlier_saves(count: int) -> str:
    """Return the earlier saves that a rule reads, in words."""
    return "the previous save" if count == 1 else f"the previous {count} saves"


def _reads(reads: Document) -> Text:
    lines = [Text("Reads", "bold")]
    for read in reads["tensors"]:
        what = ["values"] * read["values"] + read["fields"] * (not read["values"]) + read["detail"]
        back = f", and {earlier_saves(read['back'])}" if read["back"] else ""
        lines.append(styled(f"{read['selects']}: {', '.join(what) or 'that it was saved'}{back}"))
    lines += [styled(f"the same of run {run}") for run in reads["runs"]]
    if reads["time"]:
        lines.append(Text("the passing of time"))
    if reads["whole_run"]:
        lines.append(Text("the run up to the step"))
    return Text("\n").join(lines)
