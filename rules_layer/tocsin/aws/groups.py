"""The groups of alerts, one item of the table for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from tocsin.alerts import AlertGroup, RuleAlert, StoredGroup, decode_group, encode_group
from tocsin.aws.dynamodb import Table, due_shard, number
from tocsin.aws.settings import GROUP_PREFIX

_DAYS = 90 * 24 * 3600
_MOST_BYTES = 350_000  # DynamoDB takes 400 kB


@dataclass(frozen=True)
class DynamoGroups:
    """``alerts#<run>``; in the sparse index ``due`` while there is something to wait for."""

    table: Table
    now: Callable[[], float]

    def load(self, run: str) -> StoredGroup:
        """Raises ValueError if the item is not a group."""
        body, version = self.table.load(f"{GROUP_PREFIX}{run}")
        return StoredGroup(AlertGroup(run) if body is None else decode_group(body), version)

    def save(self, group: AlertGroup, version: int | None) -> int:
        """Raises CommitConflict, and ValueError if a run has more to say than an item holds."""
        key = f"{GROUP_PREFIX}{group.run}"
        more: dict[str, Any] = {"expires_at": number(int(self.now()) + _DAYS)}
        if group.due_at is not None:
            more |= {"due_shard": due_shard(key), "due_at": number(group.due_at)}
        return self.table.save(key, _body(group), version, more)


def _body(group: AlertGroup) -> bytes:
    for candidate in _ever_smaller(group):
        if len(body := encode_group(candidate)) <= _MOST_BYTES:
            return body
    raise ValueError(f"the alerts of {group.run} take more than {_MOST_BYTES} bytes")


def _ever_smaller(group: AlertGroup) -> Iterator[AlertGroup]:
    """Leave out first what says least: the oldest of the log, then the longest texts of rules, then
    metrics, of which a run can name thousands; at last all that is to be done but the stop.
    """
    yield group
    while group.log:
        group = replace(group, log=group.log[1 + len(group.log) // 8 :])
        yield group
    group = replace(
        group, alerts={rule: _brief(each) for rule, each in group.alerts.items()}, held={}
    )
    yield group
    for kept in (lambda action: not action.startswith("metric"), "stop".__eq__):
        yield _only(group, kept)


def _brief(newest: RuleAlert) -> RuleAlert:
    alert = newest.alert
    return replace(
        newest,
        alert=replace(
            alert, evidence={}, status_details=alert.status_details[:200], tensor=None, worker=None
        ),
        fired=None if newest.fired is None else _brief(newest.fired),
    )


def _only(group: AlertGroup, kept: Callable[[str], bool]) -> AlertGroup:
    """The group with these actions only."""

    def shorter(newest: RuleAlert) -> RuleAlert:
        actions = tuple(filter(kept, newest.alert.actions))
        fired = None if newest.fired is None else shorter(newest.fired)
        return replace(newest, alert=replace(newest.alert, actions=actions), fired=fired)

    return replace(
        group,
        alerts={rule: shorter(each) for rule, each in group.alerts.items()},
        sent={action: sent for action, sent in group.sent.items() if kept(action)},
        tasks=tuple(task for task in group.tasks if kept(task.action)),
    )
