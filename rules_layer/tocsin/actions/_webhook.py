"""Tell an endpoint that the deployment names: the event that is posted, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from tocsin.actions._ports import Ports, UnknownEndpoint
from tocsin.actions._request import Outcome, Request, Result
from tocsin.events import RUN_SUMMARY, SOURCE, RunSummary, StatusChange
from tocsin.words import clean

_MOST_BYTES = 256 << 10  # of alerts told in full


class Rejected(Exception):
    """The endpoint did not get the event and would not the next time: the text says why."""


class Stopped(msgspec.Struct, frozen=True, rename="pascal"):
    """What came of stopping the job."""

    outcome: Outcome
    detail: str


class Event(
    msgspec.Struct,
    frozen=True,
    rename={"detail_type": "detail-type", "job": "TrainingJobName", "run": "Run"},
):
    """What an endpoint gets. ``firing`` and ``resolved`` are alerts as they are on the bus, the
    worst first; ``more`` names those that there was no room for, ``ongoing`` what fires still and
    was told before. At a job's end there is a ``summary``, and no alert.
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
    stop: Stopped | None = None
    summary: RunSummary | None = None
    source: str = SOURCE


msgspec.json.Decoder(Event)  # what msgspec knows of a type is built here, not in several threads


def webhook(request: Request, ports: Ports) -> Result:
    """Posts the event to the endpoint that the argument names."""
    name = clean(request.argument or "", 80)
    if not name:
        return Result(
            Outcome.REFUSED,
            'webhook must name its endpoint: write "webhook:NAME", NAME being one of those that '
            "the deployment's option webhooks lists",
        )
    try:
        ports.post(name, _posted(_event(request)), request.key)
    except (UnknownEndpoint, Rejected) as error:
        return Result(Outcome.REFUSED, f"webhook {name!r}: {error}")
    return Result(Outcome.DONE, f"posted to webhook {name!r}")


def _event(request: Request) -> Event:
    alerts, stop = [*request.firing, *request.resolved], request.stop
    sizes = accumulate(len(msgspec.json.encode(alert)) for alert in alerts)
    told = max(1, sum(size <= _MOST_BYTES for size in sizes))
    return Event(
        detail_type=RUN_SUMMARY if request.summary else "Tocsin Alert",
        id=request.key,
        reason=request.reason,
        job=request.job,
        run=request.run,
        firing=alerts[:told][: len(request.firing)],
        resolved=alerts[:told][len(request.firing) :],
        more=_names(alerts[told:]),
        ongoing=_names(request.ongoing),
        stop=Stopped(stop.outcome, stop.detail) if stop else None,
        summary=request.summary,
    )


def _posted(event: Event) -> dict[str, Any]:
    """As JSON has it. The statuses of the run's other rules stay on the bus."""
    posted: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    for alert in (*posted["firing"], *posted["resolved"]):
        del alert["DebugRuleEvaluationStatuses"]
    return posted


def _names(alerts: Iterable[StatusChange]) -> list[str]:
    return [alert.rule_configuration_name for alert in alerts]
