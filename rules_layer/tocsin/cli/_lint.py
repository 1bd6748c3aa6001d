"""``tocsin lint``: lists all that is wrong with a watch file, before a job uses it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console

from tocsin.actions import recipients
from tocsin.cli._deployment import allowed
from tocsin.cli._installed import load_rules
from tocsin.cli._output import Document
from tocsin.cli._text import plain
from tocsin.rules import rule_names
from tocsin.watch import lint


def lint_document(
    file: str, rule_files: Sequence[str] = (), allow: Sequence[str] = ()
) -> tuple[Document, list[str]]:
    """The JSON of ``tocsin lint``, and a line of text for each problem, with file and line.

    ``lines`` holds the line of each problem, None where it is not known. Raises OSError for a
    file that cannot be read, BadRule if one of ``rule_files`` fails.
    """
    load_rules(rule_files)
    known = allowed(allow)
    watch, problems = lint(file, recipients(known.recipients, known.webhooks), datetime.now(UTC))
    rules = None
    if watch is not None:
        rules = len(rule_names(watch.profile) if watch.rules is None else watch.rules)
    document = {
        "file": file,
        "rules": rules,
        "problems": [str(problem.fault) for problem in problems],
        "lines": [problem.line for problem in problems],
    }
    return document, [problem.at(file) for problem in problems]


def print_lint(document: Document, console: Console) -> None:
    """Prints that a file has no problem. Problems go to stderr, they are not the answer."""
    if not document["problems"]:
        rules = "1 rule" if document["rules"] == 1 else f"{document['rules']} rules"
        console.print(plain(f"{document['file']}: {rules}, no problem"), soft_wrap=True)
