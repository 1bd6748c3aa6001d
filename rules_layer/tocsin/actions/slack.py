"""The event of a webhook as Slack shows it, within Slack's limits.

All text is ``plain_text``, so that nothing in it is markup: names come from the training job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tocsin.actions.webhook import WebhookEvent
from tocsin.events import RunSummary, StatusChange
from tocsin.model import RuleStatus
from tocsin.tensors import is_machine_run, step_text
from tocsin.words import clean, cut, number

_TITLE = 150
_TEXT = 3000
_BUTTON = 75
_URL = 3000
_MOST_ALERTS = 20  # in blocks of their own; Slack takes 50 blocks
_MOST_NAMES = 20  # in one line
_FINE = frozenset({RuleStatus.NO_ISSUES_FOUND, RuleStatus.NOT_APPLICABLE})


def slack_payload(event: Mapping[str, Any]) -> dict[str, Any]:
    """The body of Slack's incoming webhook; ``event`` is a ``WebhookEvent`` as JSON has it."""
    given = msgspec.convert(event, WebhookEvent)
    title = _title(given)
    return {
        "text": _escaped(title, _TEXT),
        "blocks": [
            {"type": "header", "text": _plain(title, _TITLE)},
            *({"type": "section", "text": _plain(text, _TEXT)} for text in _texts(given)),
            {"type": "context", "elements": [_plain(f"Run: {clean(given.run)}", _TEXT)]},
            *_buttons(given),
        ],
    }


def _title(event: WebhookEvent) -> str:
    job = clean(event.job, 60)
    if event.summary:
        return f"{job} has ended: {event.summary.rule_evaluation_status or 'no rules'}"
    about = event.firing or event.resolved or event.withdrawn
    over = "resolved" if event.resolved or not event.withdrawn else "withdrawn"
    what = f"{event.firing[0].severity}" if event.firing else over
    names = [alert.rule_configuration_name for alert in about]
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{what}: {clean(names[0], 60) if names else 'alert'}{others} in {job}"


def _texts(event: WebhookEvent) -> Iterator[str]:
    if event.summary:
        yield _ending(event.summary)
    yield from map(_alert, event.firing[:_MOST_ALERTS])
    more = [alert.rule_configuration_name for alert in event.firing[_MOST_ALERTS:]]
    resolved = [alert.rule_configuration_name for alert in event.resolved]
    withdrawn = [alert.rule_configuration_name for alert in event.withdrawn]
    for label, names in (
        ("Also", [*more, *event.more]),
        ("Resolved", resolved),
        ("Withdrawn, not judged healthy", withdrawn),
        ("Still firing", event.ongoing),
    ):
        if names:
            yield f"{label}: {_listed(names)}"
    if event.stop:
        outcome = event.stop.outcome.replace("_", " ")
        yield f"Stopping the job: {outcome}. {clean(event.stop.detail)}"


def _buttons(event: WebhookEvent) -> Iterator[dict[str, Any]]:
    """Links to the run's report; an address that Slack has no room for is left out."""
    places = {"Report": event.report.page, "Report in the console": event.report.console}
    elements = [
        {"type": "button", "text": _plain(label, _BUTTON), "url": url}
        for label, url in places.items()
        if 0 < len(url) <= _URL
    ]
    if elements:
        yield {"type": "actions", "elements": elements}


def _alert(alert: StatusChange) -> str:
    numbers = ", ".join(
        f"{clean(key, 80)} = {number(value)}"
        for key, value in alert.evidence.items()
        if value is not None
    )
    at = "" if alert.step is None else f" at {step_text(alert.run, alert.step)}"
    if alert.mode and alert.mode_step is not None and not is_machine_run(alert.run):
        at += f" ({clean(alert.mode, 20)} step {alert.mode_step})"
    lines = (
        f"{alert.severity}: {clean(alert.rule_configuration_name, 200)}{at}",
        clean(alert.status_details, 600),
        cut(numbers, 600),
        f"Tensor: {clean(alert.tensor, 300)}" if alert.tensor else "",
    )
    return "\n".join(line for line in lines if line)


def _ending(summary: RunSummary) -> str:
    steps, statuses = summary.steps, summary.debug_rule_evaluation_statuses
    found = [
        f"{clean(status.rule_configuration_name, 80)} is {status.rule_evaluation_status}"
        for status in statuses
        if status.rule_evaluation_status not in _FINE
    ]
    last = "" if steps.last is None else f", the last was {steps.last}"
    rules = f": {_listed(found)}" if found else ""
    return (
        f"{steps.evaluated} steps evaluated{last}. "
        f"{len(found)} of {len(statuses)} rules need attention{rules}"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    end = f" and {more} more" if more > 0 else ""
    return ", ".join(clean(name, 80) for name in names[:_MOST_NAMES]) + end


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": _escaped(text, limit), "emoji": False}


def _escaped(text: str, limit: int) -> str:
    """``text`` as Slack wants it, in at most ``limit`` characters, no entity cut in two."""
    text = cut(text, limit)
    safe = _entities(text)
    excess = len(safe) - limit
    # Without as many characters as it is too long it fits; a fifth fits whatever is in it.
    return safe if excess <= 0 else _entities(cut(text, max(limit // 5, len(text) - excess)))


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
