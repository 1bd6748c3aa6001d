"""The event of a webhook as Microsoft Teams shows it: an adaptive card, within Teams' limits.

All text of a run is in runs of a rich text block, where nothing is markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.actions.formats.wording import bounded, links, paragraphs, title, worst
from tocsin.actions.webhook import WebhookEvent
from tocsin.model import Severity
from tocsin.words import clean, cut

_MOST_BYTES = 20_000  # of texts as JSON; Teams takes 28 KB
_PARAGRAPH = 1000
_URL = 3000
_COLORS = {Severity.CRITICAL: "attention", Severity.WARNING: "warning", Severity.INFO: "accent"}


def teams_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body for a workflow of Teams; ``event`` is a ``WebhookEvent`` as JSON has it."""
    given = msgspec.convert(event, WebhookEvent)
    severity = worst(given)
    color = _COLORS[severity] if severity else "default"
    head = {"size": "large", "weight": "bolder", "color": color}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [_text(title(given), head), *map(_text, _paragraphs(given))],
        "actions": [
            {"type": "Action.OpenUrl", "title": name, "url": url}
            for name, url in links(given, _URL).items()
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _paragraphs(event: WebhookEvent) -> list[str]:
    """As many as there is room for, and the run."""
    texts = (cut(text, _PARAGRAPH) for text in paragraphs(event))
    shown = bounded(texts, _MOST_BYTES, lambda text: len(msgspec.json.encode(text)) + 100)
    return [*shown, f"Run: {clean(event.run, _PARAGRAPH)}"]


def _text(text: str, style: Mapping[str, str] = {}) -> dict[str, Any]:
    """A block with a run for each line."""
    lines = text.split("\n")
    runs = [f"{line}\n" for line in lines[:-1]] + lines[-1:]
    inlines = [{"type": "TextRun", "text": run, **style} for run in runs]
    return {"type": "RichTextBlock", "inlines": inlines}
