"""What arrives in act's queue: events off the bus, and messages of our own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from tocsin.events import BadEvent, RunSummary, StatusChange, decode

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1200)]


@dataclass(frozen=True)
class Flush:
    """Something of the run is due."""

    run: str


@dataclass(frozen=True)
class Retry:
    """An action that has failed is to be tried again."""

    run: str
    task: str


Message = StatusChange | RunSummary | Flush | Retry


class _Own(msgspec.Struct, frozen=True):
    tocsin: Literal["flush", "retry"]
    run: _Text
    task: str = ""


_decoder = msgspec.json.Decoder(_Own)


def encode_flush(run: str) -> str:
    return json.dumps({"tocsin": "flush", "run": run})


def encode_retry(run: str, task: str) -> str:
    return json.dumps({"tocsin": "retry", "run": run, "task": task})


def parse_message(body: str | bytes) -> Message:
    """BadEvent on what is none of the four; retrying will not mend it."""
    try:
        own = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError):
        return decode(body)
    if not own.run.startswith("s3://"):
        raise BadEvent(f"a {own.tocsin} names no run: expected s3://bucket/prefix")
    return Flush(own.run) if own.tocsin == "flush" else Retry(own.run, own.task)
