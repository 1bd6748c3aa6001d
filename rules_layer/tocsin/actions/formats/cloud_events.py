"""The event of a webhook as a CloudEvent 1.0 in structured mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tocsin.events import RUN_SUMMARY
from tocsin.words import clean

ALERT, ENDED = "tocsin.alert", "tocsin.run.summary"


def cloud_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body; ``event`` is a ``WebhookEvent`` as JSON has it, and becomes ``data``.

    ``source`` and ``id`` together name a delivery: a second one has the same.
    """
    alerts = [*event.get("firing", ()), *event.get("resolved", ()), *event.get("withdrawn", ())]
    found = [each.get("EvaluatedAt") for each in (*alerts, event.get("summary") or {})]
    times = [time for time in found if time]
    return {
        "specversion": "1.0",
        "type": ENDED if event["detail-type"] == RUN_SUMMARY else ALERT,
        "source": quote(event["Run"], safe=":/") or "tocsin",
        "id": event["id"],
        "subject": clean(event["TrainingJobName"], 255) or "-",
        **({"time": max(times)} if times else {}),
        "datacontenttype": "application/json",
        "data": dict(event),
    }
