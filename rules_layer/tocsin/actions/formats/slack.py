"""The event of a webhook as Slack shows it, within Slack's limits.

All text is ``plain_text``, so that nothing in it is markup: names come from the training job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tocsin.actions.formats.wording import entities, fitted, links, paragraphs, title
from tocsin.actions.webhook import WebhookEvent
from tocsin.words import clean

_TITLE = 150
_TEXT = 3000
_BUTTON = 75
_URL = 3000


def slack_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of Slack's incoming webhook; ``event`` is a ``WebhookEvent`` as JSON has
    it."""
    given = msgspec.convert(event, WebhookEvent)
    about = title(given)
    return {
        "text": fitted(about, _TEXT, entities, 5),
        "blocks": [
            {"type": "header", "text": _plain(about, _TITLE)},
            *({"type": "section", "text": _plain(text, _TEXT)} for text in paragraphs(given)),
            {"type": "context", "elements": [_plain(f"Run: {clean(given.run)}", _TEXT)]},
            *_buttons(given),
        ],
    }


def _buttons(event: WebhookEvent) -> Iterator[dict[str, Any]]:
    """Links to the run's report; an address that Slack has no room for is left out."""
    elements = [
        {"type": "button", "text": _plain(label, _BUTTON), "url": url}
        for label, url in links(event, _URL).items()
    ]
    if elements:
        yield {"type": "actions", "elements": elements}


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": fitted(text, limit, entities, 5), "emoji": False}
