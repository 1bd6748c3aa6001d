"""The event of a webhook in words for people, without markup: names come from the training job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tocsin.actions.headline import last_good, saved
from tocsin.actions.webhook import WebhookEvent
from tocsin.events import MOST_SEVERE_FIRST, RunSummary, StatusChange
from tocsin.model import RuleStatus, Severity
from tocsin.rules import find_rule, page_of
from tocsin.tensors import is_machine_run, step_text
from tocsin.words import clean, cut, number

_MOST_ALERTS = 20  # in a paragraph of their own
_MOST_NAMES = 20  # in one line
RULE_PAGE = "About the rule"
_FINE = frozenset({RuleStatus.NO_ISSUES_FOUND, RuleStatus.NOT_APPLICABLE})


def title(event: WebhookEvent) -> str:
    """Return one line: the first alert with the worst severity, or how the job ended."""
    job = clean(event.job, 60)
    if event.summary:
        return f"{job} has ended: {event.summary.rule_evaluation_status or 'no rules'}"
    about = event.firing or event.resolved or event.withdrawn
    over = "resolved" if event.resolved or not event.withdrawn else "withdrawn"
    what = f"{worst(event)}" if event.firing else over
    names = [alert.rule_configuration_name for alert in about]
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{what}: {clean(names[0], 60) if names else 'alert'}{others} in {job}"


def still_firing(event: WebhookEvent) -> str:
    """Return one line about rules that were sent before and still fire."""
    severity = f"{event.severity}: " if event.severity else ""
    return f"{severity}{_listed(event.ongoing)} in {clean(event.job, 60)}"


def worst(event: WebhookEvent) -> Severity | None:
    """Return the worst severity of the alerts that fire; None without one."""
    severities = (alert.severity for alert in event.firing)
    return min(severities, key=MOST_SEVERE_FIRST.index, default=None)


def paragraphs(event: WebhookEvent, alerts: int = _MOST_ALERTS) -> Iterator[str]:
    """Return one line for each firing alert, at most ``alerts``, then the remaining lines."""
    if event.summary:
        yield _ending(event.summary)
    if event.cause:
        name, details = event.cause.rule_configuration_name, event.cause.status_details
        yield f"Likely cause: {clean(name, 200)}{': ' if details else ''}{clean(details, 600)}"
    yield from map(_alert, event.firing[:alerts])
    for label, text in _rest(event, alerts):
        yield f"{label}: {text}"


def sections(event: WebhookEvent, alerts: int = _MOST_ALERTS) -> Iterator[tuple[str, str]]:
    """Yield the same, by rule and by label."""
    for alert in event.firing[:alerts]:
        yield clean(alert.rule_configuration_name, 80), _alert(alert)
    yield from _rest(event, alerts)


def _rest(event: WebhookEvent, alerts: int) -> Iterator[tuple[str, str]]:
    more = [alert.rule_configuration_name for alert in event.firing[alerts:]]
    resolved = [alert.rule_configuration_name for alert in event.resolved]
    withdrawn = [alert.rule_configuration_name for alert in event.withdrawn]
    for label, names in (
        ("Also", [*more, *event.more]),
        ("Resolved", resolved),
        ("Withdrawn, not judged healthy", withdrawn),
        ("Still firing", event.ongoing),
    ):
        if names:
            yield label, _listed(names)
    if good := last_good(event.firing):
        yield "Last good", clean(good.text, 1200)
    if event.stop:
        outcome = event.stop.outcome.replace("_", " ")
        parts = (outcome, clean(event.stop.detail), saved(event.firing, event.stop.outcome))
        yield "Stopping the job", ". ".join(filter(None, parts))


def links(event: WebhookEvent, longest: int) -> Mapping[str, str]:
    """Addresses by their names, without those of more characters: of the run's report, and of the
    first rule's page.
    """
    rule = page_of(find_rule(event.firing[0].rule)) if event.firing else ""
    report = {"Report": event.report.page, "Report in the console": event.report.console}
    places = {**report, RULE_PAGE: rule}
    return {name: url for name, url in places.items() if 0 < len(url) <= longest}


def bounded(texts: Iterable[str], room: int, size: Callable[[str], int]) -> Iterator[str]:
    """Yield texts while there is room for them, then an ellipsis in place of the rest."""
    for text in texts:
        room -= size(text)
        if room < 0:
            yield "…"
            return
        yield text


def fitted(text: str, limit: int, escape: Callable[[str], str], growth: int) -> str:
    """Return ``text`` escaped, in at most ``limit`` characters, without cutting an escape in two.

    growth: the most characters that ``escape`` makes of one.
    """
    text = cut(text, limit)
    safe = escape(text)
    excess = len(safe) - limit
    return safe if excess <= 0 else escape(cut(text, max(limit // growth, len(text) - excess)))


def entities(text: str) -> str:
    """Return ``text`` without the characters that begin markup in Slack and Google Chat."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
        f"What to do: {advice}" if (advice := _advice(alert.rule)) else "",
    )
    return "\n".join(line for line in lines if line)


def _advice(rule: str) -> str:
    """The advice of a rule of ours; empty for any other."""
    found = find_rule(rule)
    return clean(" ".join(found.advice.split()), 600) if found else ""


def _ending(summary: RunSummary) -> str:
    steps, statuses = summary.steps, summary.debug_rule_evaluation_statuses
    found = [
        f"{clean(status.rule_configuration_name, 80)} is {status.rule_evaluation_status}"
        for status in statuses
        if status.rule_evaluation_status not in _FINE
    ]
    last = "" if steps.last is None else f", the last was {steps.last}"
    rules = f": {_listed(found)}" if found else ""
    left = f"Not run: {summary.not_run.text}. " if summary.not_run else ""
    return (
        f"{steps.evaluated} steps evaluated{last}. {left}"
        f"{len(found)} of {len(statuses)} rules need attention{rules}"
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    end = f" and {more} more" if more > 0 else ""
    return ", ".join(clean(name, 80) for name in names[:_MOST_NAMES]) + end
