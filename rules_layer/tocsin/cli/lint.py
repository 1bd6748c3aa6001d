"""``tocsin lint``: finds all faults of a watch file before a job uses it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from tocsin.actions import recipients
from tocsin.cli.display import styled
from tocsin.cli.errors import CommandError
from tocsin.cli.output import Document
from tocsin.cli.rules import load_rules
from tocsin.custom import load_files
from tocsin.parsing import list_items
from tocsin.watch import configured, lint

_PEOPLE = ("allowedRecipients", "emails", "phones")


def lint_document(
    file: str, rule_files: Sequence[str] = (), allow: Sequence[str] = ()
) -> tuple[Document, list[str]]:
    """Return the JSON of ``tocsin lint``, and a line of text for each problem, with file and line.

    ``lines`` holds the line of each problem, None if it is not known. Raises OSError for a
    file that cannot be read, BadRule if one of ``rule_files`` fails.
    """
    load_rules(rule_files)
    known = allowed(allow)
    refuses = recipients(known.recipients, known.webhooks)
    watch, problems = lint(file, refuses, load_files, datetime.now(UTC))
    rules = None
    if watch is not None:
        rules = len(configured(watch))
    document = {
        "file": file,
        "rules": rules,
        "problems": [str(problem.fault) for problem in problems],
        "lines": [problem.line for problem in problems],
    }
    return document, [problem.at(file) for problem in problems]


def print_lint(document: Document, console: Console) -> None:
    """Prints that a file has no problem. Problems go to stderr."""
    if not document["problems"]:
        rules = "1 rule" if document["rules"] == 1 else f"{document['rules']} rules"
        console.print(styled(f"{document['file']}: {rules}, no problem"), soft_wrap=True)


@dataclass(frozen=True)
class Allowed:
    """The recipients that a deployment allows; None if they are not known.

    recipients: addresses, ``*@example.com`` and phone numbers.
    webhooks: the names of webhooks.
    """

    recipients: tuple[str, ...] | None = None
    webhooks: tuple[str, ...] | None = None


def allowed(allow: Sequence[str], file: Path = Path("cdk.json")) -> Allowed:
    """Return the recipients in ``allow``; if it is empty, those in ``file``.

    Not known if the file names none: they may be given elsewhere. Raises CommandError for a file
    that cannot be read.
    """
    if allow:
        hooks = tuple(item.removeprefix("webhook:") for item in allow if _is_webhook(item))
        return Allowed(tuple(item for item in allow if not _is_webhook(item)), hooks)
    context = _context(file)
    if not any(key in context for key in (*_PEOPLE, "webhooks")):
        return Allowed()
    people = (item for key in _PEOPLE for item in _texts(context.get(key)))
    return Allowed(tuple(people), _texts(context.get("webhooks")))


def _is_webhook(item: str) -> bool:
    return item.startswith("webhook:")


def _context(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}: not JSON: {error}: fix it, or give --allow") from error
    context = content.get("context") if isinstance(content, dict) else None
    return context if isinstance(context, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts in the context; empty for anything else."""
    texts = (str(item).strip() for item in list_items(value) or ())
    return tuple(text for text in texts if text)
