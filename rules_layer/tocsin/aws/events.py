"""Events on the deployment's bus; changes of status also as metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from tocsin.aws.cloudwatch import Admit, MetricSink, issue_metrics
from tocsin.events import (
    DETAIL_TYPES,
    SOURCE,
    ActionTaken,
    ConfigurationRefused,
    RunEvent,
    RunNews,
    StatusChange,
    encode,
    fitted,
    run_news,
    shortened,
    timestamp,
)

# EventBridge takes 10 entries and 256 KB in a request; a target gets the detail in an envelope.
_MOST_ENTRIES = 10
_MOST_BYTES = 240_000
_MOST_DETAIL = 200_000
_MOST_TOGETHER = 2_000_000  # of the details of one commit: each of 200 changes lists 200 rules
_OF_THE_CONTENT = ("InvalidArgument", "MalformedDetail", "ValidationException")

Sent: TypeAlias = RunEvent | RunNews | ActionTaken
Entry: TypeAlias = dict[str, str]

_log = logging.getLogger("tocsin")


class NotPublished(Exception):
    """The bus did not take every event: they must be sent again."""


@dataclass(frozen=True)
class Bus:
    """The deployment's bus."""

    client: Any
    name: str

    def put(self, *events: Sent) -> None:
        """Raises NotPublished if the bus did not take them all: PutEvents itself does not.

        An event that the bus refuses for its content is sent again in its short form.
        """
        refused = self._put(events)
        for event, why in self._put([shortened(event) for event, _ in refused]):
            # It would be refused for ever. `act` reads the checkpoint, which has it, too.
            _log.error(
                "bus %s refuses event %s of %s: %s", self.name, event.dedup_id, event.run, why
            )

    def put_all(self, events: Sequence[Sent]) -> None:
        self.put(*events)

    def _put(self, events: Iterable[Sent]) -> list[tuple[Sent, str]]:
        """Send all, and return those that are refused for their content, with the reason."""
        refused: list[tuple[Sent, str]] = []
        failures: list[str] = []
        for request in _requests((event, self._entry(event)) for event in events):
            answer = self.client.put_events(Entries=[entry for _, entry in request])
            for (event, _), each in zip(request, answer["Entries"], strict=False):
                if "ErrorCode" not in each:
                    continue
                why = f"{each['ErrorCode']} {each.get('ErrorMessage', '')}".rstrip()
                if each["ErrorCode"] in _OF_THE_CONTENT:
                    refused.append((event, why))
                else:
                    failures.append(why)
        if failures:
            why = "; ".join(sorted({*failures}))
            raise NotPublished(f"bus {self.name} refused {len(failures)} events: {why}")
        return refused

    def _entry(self, event: Sent) -> Entry:
        return {
            "Source": SOURCE,
            "DetailType": DETAIL_TYPES[type(event)],
            "EventBusName": self.name,
            "Detail": encode(event, _MOST_DETAIL),
        }


@dataclass(frozen=True)
class AwsPublisher:
    """Publishes the events of a run: first on the bus, where they stop jobs; then as metrics.

    job_metrics: whether there is a metric for each job, too.
    admit: says which further names in metrics a run must not use.
    """

    bus: Bus
    metrics: MetricSink
    now: Callable[[], float]
    job_metrics: bool
    admit: Admit = lambda run, names: {}

    def publish(self, events: Sequence[RunEvent]) -> None:
        at = timestamp(self.now())
        dated = [_dated(event, at) for event in events]
        share = _MOST_TOGETHER // max(1, len(dated))
        self.bus.put(*run_news(dated, _MOST_DETAIL), *(fitted(event, share) for event in dated))
        changes = (event for event in events if isinstance(event, StatusChange))
        self.metrics.put_all([*issue_metrics(changes, self.job_metrics, self.admit)])


def _dated(event: RunEvent, at: str) -> RunEvent:
    if isinstance(event, ConfigurationRefused):
        return event
    return msgspec.structs.replace(event, evaluated_at=at)


def _requests(pairs: Iterable[tuple[Sent, Entry]]) -> Iterator[list[tuple[Sent, Entry]]]:
    """The events with their entries, in their order, as many at a time as a request may carry."""
    request: list[tuple[Sent, Entry]] = []
    room = _MOST_BYTES
    for event, entry in pairs:
        size = sum(len(entry[part].encode()) for part in ("Source", "DetailType", "Detail"))
        if request and (len(request) == _MOST_ENTRIES or size > room):
            yield request
            request, room = [], _MOST_BYTES
        request.append((event, entry))
        room -= size
    if request:
        yield request
