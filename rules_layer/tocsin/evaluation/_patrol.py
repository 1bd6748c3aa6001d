"""Patrol: whatever is due gets a hint, so that nothing depends on a message that was lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import msgspec

MOST_RUNS = 1000
"""How many runs one patrol sends for; the others are still due a minute later."""

_BATCH = 10  # entries that SQS takes in one call
_RUN_KEY = "run#"

DueRuns = Callable[[float], Iterable[str]]
"""The runs (URLs) that are due at this moment (seconds since the epoch), longest due first."""

SendHints = Callable[[Sequence[str], float], None]
"""Hints at these runs, at most ten, with this tick. HintsLost."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class HintsLost(Exception):
    """The queue did not take some hints; their runs stay due."""


class PatrolSettings(msgspec.Struct, frozen=True, rename=lambda name: f"TOCSIN_{name.upper()}"):
    """What the function is told by its environment: field ``table`` is ``TOCSIN_TABLE`` …"""

    table: _Text
    evaluate_queue_url: _Text

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> PatrolSettings:
        """Reads and checks; a msgspec.ValidationError names the variable that is wrong."""
        return msgspec.convert(dict(environment), cls)


def patrol(now: float, due_runs: DueRuns, send_hints: SendHints, most: int = MOST_RUNS) -> int:
    """Sends one hint for each run that is due, up to ``most``; returns how many were sent.

    Raises HintsLost after all were tried, if the queue did not take every one.
    """
    sent, lost = 0, []
    for runs in _batches(islice(due_runs(now), most)):
        try:
            send_hints(runs, now)
            sent += len(runs)
        except HintsLost as error:
            lost.append(str(error))
    if lost:
        raise HintsLost("; ".join(lost))
    return sent


def _batches(runs: Iterable[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(runs)
    while batch := tuple(islice(rest, _BATCH)):
        yield batch


@dataclass(frozen=True)
class DueIndex:
    """The sparse index ``due`` of the table: only runs that wait for a moment are in it."""

    client: Any
    table: str

    def __call__(self, now: float) -> Iterator[str]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            IndexName="due",
            KeyConditionExpression="due_shard = :shard AND due_at <= :now",
            ExpressionAttributeValues={":shard": {"S": "0"}, ":now": {"N": f"{now:.3f}"}},
        )
        for page in pages:
            for item in page["Items"]:
                key: str = item["pk"]["S"]
                if key.startswith(_RUN_KEY):
                    yield key.removeprefix(_RUN_KEY)


@dataclass(frozen=True)
class HintQueue:
    """The queue of the function ``evaluate``."""

    client: Any
    url: str

    def __call__(self, runs: Sequence[str], now: float) -> None:
        entries = [
            {"Id": str(number), "MessageBody": _hint(run, now)} for number, run in enumerate(runs)
        ]
        answer = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
        if failed := answer.get("Failed"):
            first = failed[0]
            raise HintsLost(
                f"{len(failed)} of {len(runs)} hints not taken by {self.url}, the first for "
                f"{runs[int(first['Id'])]}: {first.get('Code')} {first.get('Message', '')}".rstrip()
            )


def _hint(run: str, now: float) -> str:
    # ASCII, because SQS refuses a whole batch for one character that XML does not have.
    return json.dumps({"tocsin": "hint", "run": run, "tick": now, "why": "patrol"})
