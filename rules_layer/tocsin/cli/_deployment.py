"""The recipients that a deployment allows: from the command line, or from ``cdk.json`` here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.cli._errors import Problem
from tocsin.parsing import list_items

_PEOPLE = ("allowedRecipients", "emails", "phones")


@dataclass(frozen=True)
class Allowed:
    """What a deployment allows; None where that is not known.

    recipients: addresses, ``*@example.com`` and phone numbers.
    webhooks: the names of webhooks.
    """

    recipients: tuple[str, ...] | None = None
    webhooks: tuple[str, ...] | None = None


def allowed(allow: Sequence[str], file: Path = Path("cdk.json")) -> Allowed:
    """The recipients and ``webhook:NAME`` in ``allow``; if it is empty, those in ``file``.

    Nothing is known if the file names neither: they may be given elsewhere. Raises Problem for a
    file that cannot be read.
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
        raise Problem(f"{file}: not JSON: {error}: fix it, or give --allow") from error
    context = content.get("context") if isinstance(content, dict) else None
    return context if isinstance(context, dict) else {}


def _texts(value: Any) -> tuple[str, ...]:
    """A list of texts in the context; empty for anything else."""
    texts = (str(item).strip() for item in list_items(value) or ())
    return tuple(text for text in texts if text)
