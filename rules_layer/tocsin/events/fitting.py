"""Events in the size that the bus takes: the least informative parts are left out first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tocsin.events.types import (
    ConfigurationRefused,
    E,
    Event,
    RunEvent,
    RunNews,
    RunSummary,
    StatusChange,
)
from tocsin.model import RuleStatus
from tocsin.words import ascii_only, cut

_FEW = 50  # texts of a list, each at most a few hundred characters


def encode(event: Event, most: int) -> str:
    """Return the detail as JSON, in at most ``most`` bytes of UTF-8.

    The least informative parts are left out first: the details of other rules' statuses, then the
    last of these statuses; then all silences but the longest, which has the same effect; last
    the evidence, which a custom rule may make long; then it is the short form.
    """
    return msgspec.json.encode(fitted(event, most)).decode()


def fitted(event: E, most: int) -> E:
    """Return the event without its least informative parts, so that it takes at most ``most``
    bytes."""
    smaller = event
    for smaller in _smaller_and_smaller(event):
        if len(msgspec.json.encode(smaller)) <= most:
            break
    return smaller


def run_news(events: Sequence[RunEvent], most: int) -> Iterator[RunNews]:
    """Collect the events of one run that need a decision of ``act``, in parts of ``most`` bytes.

    These are rules that fire or no longer do, and the end of the run.
    """
    part: list[StatusChange | RunSummary] = []
    size = 0
    for event in events:
        if isinstance(event, ConfigurationRefused):
            continue
        if isinstance(event, StatusChange):
            if not event.firing and event.previous_status is not RuleStatus.ISSUES_FOUND:
                continue
            event = msgspec.structs.replace(event, debug_rule_evaluation_statuses=())
        event = fitted(event, most)
        length = len(msgspec.json.encode(event))
        if part and size + length > most:
            yield _news(part)
            part, size = [], 0
        part.append(event)
        size += length
    if part:
        yield _news(part)


def _news(part: Sequence[StatusChange | RunSummary]) -> RunNews:
    first = part[0]
    return RunNews(
        first.training_job_name,
        first.run,
        first.run_id,
        dedup_id(*(each.dedup_id for each in part)),
        tuple(each for each in part if isinstance(each, StatusChange)),
        tuple(each for each in part if isinstance(each, RunSummary)),
    )


def shortened(event: E) -> E:
    """Return the event with what must arrive: who, which status, which actions; texts in plain
    ASCII."""
    replace = msgspec.structs.replace
    if isinstance(event, StatusChange):
        return replace(
            event,
            status_details=_short(event.status_details),
            actions=event.actions[:_FEW],
            inhibits=event.inhibits[:_FEW],
            silences=event.silences[-1:],
            evidence={},
            tensor=None,
            worker=None,
            debug_rule_evaluation_statuses=(),
            truncated=True,
        )
    if isinstance(event, RunSummary):
        silences = event.silences[-1:]
        return replace(event, silences=silences, debug_rule_evaluation_statuses=(), truncated=True)
    if isinstance(event, RunNews):
        changes, summaries = map(shortened, event.changes), map(shortened, event.summaries)
        return replace(event, changes=tuple(changes), summaries=tuple(summaries))
    return replace(event, detail=_short(event.detail), truncated=True)


def _short(text: str) -> str:
    return cut(ascii_only(text), 200)


def _smaller_and_smaller(event: Any) -> Iterator[Any]:
    yield event
    if isinstance(event, StatusChange | RunSummary):
        replace = msgspec.structs.replace
        statuses = tuple(
            replace(each, status_details="") for each in event.debug_rule_evaluation_statuses
        )
        while statuses:
            yield replace(event, debug_rule_evaluation_statuses=statuses)
            statuses = statuses[: len(statuses) // 2]
        event = replace(event, debug_rule_evaluation_statuses=())
        yield event
        event = replace(event, silences=event.silences[-1:])
        yield event
    if isinstance(event, StatusChange):
        yield replace(event, evidence={}, tensor=None, worker=None)
    yield shortened(event)


def dedup_id(*identity: object) -> str:
    """Return an id that is the same each time the event is found."""
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]
