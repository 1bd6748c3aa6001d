"""The event of a webhook for PagerDuty's Events API v2: one incident for each run.

The incident is triggered while a rule of the run fires, and resolved when none does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from tocsin.actions.formats.wording import links, sections, still_firing, title, worst
from tocsin.actions.webhook import Rejected, WebhookEvent
from tocsin.model import Severity
from tocsin.words import clean, cut

_SUMMARY = 1024
_TEXT = 4000
_URL = 4000
_SEVERITIES = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "info"}


def pagerduty_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without its ``routing_key``; ``event`` is a ``WebhookEvent`` as JSON has it.

    Raises Rejected for the summary of a run, which is no incident.
    """
    given = msgspec.convert(event, WebhookEvent)
    if given.summary:
        raise Rejected("PagerDuty has no event for a run's end: take it out of notify.summary")
    fires = bool(given.firing or given.ongoing)
    key = hashlib.sha256(given.run.encode()).hexdigest()
    about = {"event_action": "trigger" if fires else "resolve", "dedup_key": f"tocsin-{key}"}
    if not fires:
        return about
    alerts = [*given.firing, *given.resolved, *given.withdrawn]
    return about | {
        "client": "Tocsin",
        "links": [{"href": url, "text": name} for name, url in links(given, _URL).items()],
        "payload": {
            "summary": cut(title(given) if given.firing else still_firing(given), _SUMMARY),
            "source": cut(clean(given.run) or "tocsin", _SUMMARY),
            "severity": _SEVERITIES[given.severity or worst(given) or Severity.WARNING],
            "component": clean(given.job, 255),
            "group": "training jobs",
            "class": clean(alerts[0].rule if alerts else "", 255),
            "custom_details": {label: cut(text, _TEXT) for label, text in sections(given)},
        },
    }
