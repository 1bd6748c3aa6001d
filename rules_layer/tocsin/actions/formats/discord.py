"""The event of a webhook as Discord shows it: an embed, within Discord's limits.

Markup in texts of a run is escaped, and nobody is mentioned: names come from the training job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.actions.formats.wording import (
    RULE_PAGE,
    bounded,
    fitted,
    links,
    paragraphs,
    title,
    worst,
)
from tocsin.actions.webhook import WebhookEvent
from tocsin.model import Severity
from tocsin.words import clean

_TITLE = 256
_DESCRIPTION = 4096
_PARAGRAPH = 1000
_URL = 2048
_LINK = 200  # of the rule's page, and the lines between
_MARKUP = re.compile(r"[\\*_~`|<>@#\[\]()]")
_COLORS = {Severity.CRITICAL: 0xC0392B, Severity.WARNING: 0xE67E22, Severity.INFO: 0x2980B9}


def discord_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a webhook of Discord; ``event`` is a ``WebhookEvent`` as JSON has it."""
    given = msgspec.convert(event, WebhookEvent)
    run = fitted(f"Run: {clean(given.run)}", _PARAGRAPH, _escaped, 2)
    texts = (fitted(text, _PARAGRAPH, _escaped, 2) for text in paragraphs(given))
    room = _DESCRIPTION - len(run) - _LINK
    shown = bounded(texts, room, lambda text: len(text) + 2)
    severity, pages = worst(given), links(given, _URL)
    about = [f"[{RULE_PAGE}]({pages[RULE_PAGE]})"] if RULE_PAGE in pages else []
    embed = {
        "title": fitted(title(given), _TITLE, _escaped, 2),
        "description": "\n\n".join([*shown, run, *about]),
        **({"color": _COLORS[severity]} if severity else {}),
        **({"url": page} if (page := pages.get("Report")) else {}),
    }
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)
