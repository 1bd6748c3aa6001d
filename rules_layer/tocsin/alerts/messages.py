"""The messages in act's queue: events off the bus, and messages of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from tocsin.actions import ActionOutcome
from tocsin.events import BadEvent, RunNews, RunSummary, StatusChange, decode, run_of
from tocsin.words import clean

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1200)]


@dataclass(frozen=True)
class Flush:
    """Something of the run is due."""

    run: str


@dataclass(frozen=True)
class Deliver:
    """Tasks of the run were handed on to be carried out.

    waits: how often the message has waited for its turn.
    """

    run: str
    waits: int = 0


@dataclass(frozen=True)
class Relaunched:
    """The outcome of starting the run's job again.

    rule, dedup_id: the alert that asked for it.
    """

    run: str
    rule: str
    dedup_id: str
    outcome: ActionOutcome
    detail: str


Incoming = RunNews | StatusChange | RunSummary | Flush | Deliver | Relaunched
"""A status change or a summary by itself is of an earlier version, as if it was a commit's only."""


class _Own(msgspec.Struct, frozen=True):
    tocsin: Literal["flush", "deliver", "relaunch", "retry"]  # "retry" is of an earlier version
    run: _Text
    waits: int = 0
    rule: str = ""
    dedup_id: str = ""
    outcome: ActionOutcome = ActionOutcome.FAILED
    detail: str = ""


_decoder = msgspec.json.Decoder(_Own)


def parse_message(body: str | bytes) -> Incoming:
    """Raises BadEvent for any other message; retrying will not fix that."""
    return _own(body) or decode(body)


def named_run(body: str | bytes) -> str:
    """Return the run that a message of ours or an event of any type is about. Raises BadEvent."""
    own = _own(body)
    return own.run if own else run_of(body)


def _own(body: str | bytes) -> Flush | Deliver | Relaunched | None:
    """A message of our own; None if it is something else."""
    try:
        own = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not own.run.startswith("s3://"):
        raise BadEvent(f"a {own.tocsin} names no run: expected s3://bucket/prefix")
    if own.tocsin == "relaunch":
        return Relaunched(own.run, own.rule, own.dedup_id, own.outcome, clean(own.detail, 1000))
    return Deliver(own.run, own.waits) if own.tocsin == "deliver" else Flush(own.run)
