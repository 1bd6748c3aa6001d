"""Post an event to an endpoint that the deployment names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from tocsin.actions.ports import Effects, Lookups, ReportLinks, UnknownEndpoint
from tocsin.actions.request import ActionOutcome, Request, Result
from tocsin.events import RUN_SUMMARY, SOURCE, RunSummary, StatusChange
from tocsin.model import Severity
from tocsin.words import clean

_MOST_BYTES = 256 << 10  # of alerts that are sent in full


class Rejected(Exception):
    """The endpoint refuses the event, also if it is retried; the text has the reason."""


class StopReport(msgspec.Struct, frozen=True, rename="pascal"):
    """The outcome of stopping the job."""

    outcome: ActionOutcome
    detail: str


class Cause(msgspec.Struct, frozen=True, rename="pascal"):
    """The finding that explains the first alert, and is not among the alerts."""

    rule_configuration_name: str
    rule: str
    status_details: str = ""


class WebhookEvent(
    msgspec.Struct,
    frozen=True,
    rename={"detail_type": "detail-type", "job": "TrainingJobName", "run": "Run"},
):
    """The event that an endpoint gets.

    firing, resolved: alerts as they are on the bus, the cause first.
    more: names of those that there was no room for.
    ongoing: names of rules that still fire and were sent before.
    summary: at a job's end, and then there is no alert.
    withdrawn: alerts that no longer stand, of rules that were not judged healthy.
    report: where the run's report opens.
    severity: the worst of all rules that fire, the ongoing ones included.
    cause: the likely cause of the first alert, if no alert of the event is.
    """

    detail_type: str
    id: str
    reason: str
    job: str
    run: str
    firing: Sequence[StatusChange] = []
    resolved: Sequence[StatusChange] = []
    more: Sequence[str] = []
    ongoing: Sequence[str] = []
    stop: StopReport | None = None
    summary: RunSummary | None = None
    withdrawn: Sequence[StatusChange] = []
    report: ReportLinks = ReportLinks()
    severity: Severity | None = None
    source: str = SOURCE
    cause: Cause | None = None


# Built before any thread: msgspec builds what it knows of a type at its first use.
msgspec.json.Decoder(WebhookEvent)


def webhook(request: Request, lookups: Lookups, effects: Effects) -> Result:
    """Post the event to the endpoint that the argument names."""
    name = clean(request.argument or "", 80)
    if not name:
        return Result(
            ActionOutcome.REFUSED,
            'the action needs an endpoint: write "webhook:NAME" with a name that the deployment\'s '
            "option webhooks lists",
        )
    try:
        effects.post(name, _posted(_event(request, lookups)), request.key)
    except (UnknownEndpoint, Rejected) as error:
        return Result(ActionOutcome.REFUSED, f"webhook {name!r}: {error}")
    return Result(ActionOutcome.DONE, f"posted to webhook {name!r}")


def _event(request: Request, lookups: Lookups) -> WebhookEvent:
    alerts, stop = [*request.firing, *request.resolved, *request.withdrawn], request.stop
    given = [*request.firing, *request.resolved]
    sizes = accumulate(len(msgspec.json.encode(alert)) for alert in alerts)
    in_full = max(1, sum(size <= _MOST_BYTES for size in sizes))
    return WebhookEvent(
        detail_type=RUN_SUMMARY if request.summary else "Tocsin Alert",
        id=request.key,
        reason=request.reason,
        job=request.job,
        run=request.run,
        firing=alerts[:in_full][: len(request.firing)],
        resolved=given[:in_full][len(request.firing) :],
        more=_names(alerts[in_full:]),
        ongoing=_names(request.ongoing),
        stop=StopReport(stop.outcome, stop.detail) if stop else None,
        summary=request.summary,
        withdrawn=alerts[:in_full][len(given) :],
        report=lookups.report(request.run),
        severity=max(
            (alert.severity for alert in (*request.firing, *request.ongoing)),
            key=list(Severity).index,
            default=None,
        ),
        cause=_cause(request.cause),
    )


def _cause(alert: StatusChange | None) -> Cause | None:
    if alert is None:
        return None
    return Cause(alert.rule_configuration_name, alert.rule, alert.status_details)


def _posted(event: WebhookEvent) -> dict[str, Any]:
    """As JSON has it. The statuses of the run's other rules stay on the bus."""
    posted: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    for alert in (*posted["firing"], *posted["resolved"], *posted["withdrawn"]):
        del alert["DebugRuleEvaluationStatuses"]
    return posted


def _names(alerts: Iterable[StatusChange]) -> list[str]:
    return [alert.rule_configuration_name for alert in alerts]
