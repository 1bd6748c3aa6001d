"""Whom a deployment tells: the ``cdk.json`` of the folder one is in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.cli._errors import Problem

_PEOPLE = ("allowedRecipients", "emails", "phones")


@dataclass(frozen=True)
class Told:
    """Recipients and names of webhooks that a deployment allows; None: nothing is known of it."""

    recipients: tuple[str, ...] | None = None
    webhooks: tuple[str, ...] | None = None


def told(allow: Sequence[str], file: Path = Path("cdk.json")) -> Told:
    """Those of the command line, ``webhook:NAME`` among them; without any, those of the file.

    A file that names neither recipients nor webhooks is not asked: they may be given elsewhere.
    Raises Problem for one that cannot be read.
    """
    if allow:
        hooks = tuple(item.removeprefix("webhook:") for item in allow if _is_webhook(item))
        return Told(tuple(item for item in allow if not _is_webhook(item)), hooks)
    context = _context(file)
    if not any(key in context for key in (*_PEOPLE, "webhooks")):
        return Told()
    people = (item for key in _PEOPLE for item in _listed(context.get(key)))
    return Told(tuple(people), _listed(context.get("webhooks")))


def _is_webhook(item: str) -> bool:
    return item.startswith("webhook:")


def _context(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise Problem(f"{file}: not JSON: {error}: mend it, or give --allow") from error
    context = content.get("context") if isinstance(content, dict) else None
    return context if isinstance(context, dict) else {}


def _listed(value: Any) -> tuple[str, ...]:
    """As the CDK's context may have it: a list, text that holds one, or text with commas."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    items = value.split(",") if isinstance(value, str) else value
    listed = (str(item).strip() for item in items) if isinstance(items, list) else ()
    return tuple(item for item in listed if item)
