"""Bodies of webhook posts: the event itself, or the format of a service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from tocsin.actions.formats.cloud_events import cloud_event
from tocsin.actions.formats.discord import discord_payload
from tocsin.actions.formats.google_chat import google_chat_payload
from tocsin.actions.formats.pagerduty import pagerduty_payload
from tocsin.actions.formats.slack import slack_payload
from tocsin.actions.formats.teams import teams_payload

__all__ = ["FORMATS", "Format", "content_type"]

Format = Literal["json", "slack", "teams", "discord", "googlechat", "pagerduty", "cloudevents"]

FORMATS: Mapping[Format, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "json": lambda event: event,
    "slack": slack_payload,
    "teams": teams_payload,
    "discord": discord_payload,
    "googlechat": google_chat_payload,
    "pagerduty": pagerduty_payload,
    "cloudevents": cloud_event,
}
"""The body by format; the argument is a ``WebhookEvent`` as JSON has it. Some raise Rejected."""


def content_type(form: Format) -> str:
    """Return the header of a request in this format."""
    return "application/cloudevents+json" if form == "cloudevents" else "application/json"
