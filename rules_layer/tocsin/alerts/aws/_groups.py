"""The groups of alerts, one item of the table for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from tocsin.alerts._group import Group, Noted, decode_group, encode_group
from tocsin.alerts._ports import Stored
from tocsin.alerts.aws._items import Items, number
from tocsin.evaluation.aws import DUE_SHARD

PREFIX = "alerts#"
"""The table's keys of groups begin with it; the run's URL follows."""

_DAYS = 90 * 24 * 3600
_MOST_BYTES = 350_000  # DynamoDB takes 400 kB


class DynamoGroups:
    """``alerts#<run>``; in the sparse index ``due`` while there is something to wait for."""

    def __init__(self, dynamodb: Any, table: str, now: Callable[[], float]) -> None:
        self._items = Items(dynamodb, table)
        self._now = now

    def load(self, run: str) -> Stored:
        """Raises ValueError if what lies there is no group."""
        body, version = self._items.load(f"{PREFIX}{run}")
        return Stored(Group(run) if body is None else decode_group(body), version)

    def save(self, group: Group, version: int | None) -> int:
        """Raises Conflict, and ValueError if a run has more to say than an item holds."""
        more: dict[str, Any] = {"expires_at": number(int(self._now()) + _DAYS)}
        if group.wake_at is not None:
            more |= {"due_shard": {"S": DUE_SHARD}, "due_at": number(group.wake_at)}
        return self._items.save(f"{PREFIX}{group.run}", _body(group), version, more)


def _body(group: Group) -> bytes:
    for candidate in _ever_smaller(group):
        if len(body := encode_group(candidate)) <= _MOST_BYTES:
            return body
    raise ValueError(f"the alerts of {group.run} take more than {_MOST_BYTES} bytes")


def _ever_smaller(group: Group) -> Iterator[Group]:
    """What says least gives way first: the oldest of the log, then what rules tell at length."""
    yield group
    while group.log:
        group = replace(group, log=group.log[1 + len(group.log) // 8 :])
        yield group
    yield replace(
        group, alerts={rule: _brief(noted) for rule, noted in group.alerts.items()}, held={}
    )


def _brief(noted: Noted) -> Noted:
    alert = noted.alert
    return replace(
        noted,
        alert=msgspec.structs.replace(
            alert, evidence={}, status_details=alert.status_details[:200], tensor=None, worker=None
        ),
    )
