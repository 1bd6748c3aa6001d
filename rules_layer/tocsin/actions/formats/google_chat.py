"""The event of a webhook as Google Chat shows it: a card, within Chat's limits.

Markup in texts of a run is escaped: names come from the training job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.actions.formats.wording import bounded, entities, fitted, links, paragraphs, title
from tocsin.actions.webhook import WebhookEvent
from tocsin.words import clean, cut

_MOST_BYTES = 20_000  # of texts as JSON; Chat takes 32,000
_TITLE = 200
_PARAGRAPH = 1000
_URL = 2048


def google_chat_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a webhook of Google Chat; ``event`` is a ``WebhookEvent`` as JSON has
    it."""
    given = msgspec.convert(event, WebhookEvent)
    texts = (fitted(text, _PARAGRAPH, entities, 5) for text in paragraphs(given))
    shown = bounded(texts, _MOST_BYTES, lambda text: len(msgspec.json.encode(text)) + 100)
    run = fitted(f"Run: {clean(given.run)}", _PARAGRAPH, entities, 5)
    widgets = [{"textParagraph": {"text": text}} for text in (*shown, run)]
    buttons = [
        {"text": name, "onClick": {"openLink": {"url": url}}}
        for name, url in links(given, _URL).items()
    ]
    card = {
        "header": {"title": cut(title(given), _TITLE)},
        "sections": [
            {"widgets": [*widgets, *([{"buttonList": {"buttons": buttons}}] if buttons else [])]}
        ],
    }
    return {"cardsV2": [{"cardId": "tocsin", "card": card}]}
