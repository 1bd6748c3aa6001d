"""The coordination item of each run, in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from tocsin.evaluation._ports import Lease

DUE_SHARD = "0"
RUN_PREFIX = "run#"
"""The table's keys of runs begin with it; the run's URL follows."""

_JOB_DAYS = 30 * 24 * 3600
_RUN_DAYS = 90 * 24 * 3600
_MOST_KEYS = 200  # of files named since the last look; a restart shows in many
_MOST_RUNS = 100  # of one job: anybody who may write to the bucket can name a folder after it
_REFUSED = "ConditionalCheckFailedException"


class DynamoCoordination:
    """Hints, lease and attempts as attributes of one small item; every change is atomic."""

    def __init__(self, dynamodb: Any, table: str, now: Callable[[], float]) -> None:
        self._dynamodb = dynamodb
        self._table = table
        self._now = now

    def hint(self, run: str, keys: Sequence[str] = ()) -> None:
        if keys:
            added = self._update(
                _run_key(run),
                "ADD hints :one, file_keys :keys",
                {":one": _n(1), ":keys": {"SS": sorted(set(keys))}, ":most": _n(_MOST_KEYS)},
                condition="attribute_not_exists(file_keys) OR size(file_keys) < :most",
            )
            if added is not None:
                return
        self._update(_run_key(run), "ADD hints :one", {":one": _n(1)})

    def take(self, run: str, owner: str, now: float, until: float) -> Lease | None:
        item = self._update(
            _run_key(run),
            "SET lease_owner = :owner, lease_until = :until, due_shard = :shard, due_at = :until"
            " ADD attempts :one REMOVE file_keys",
            {
                ":owner": {"S": owner},
                ":until": _n(until),
                ":now": _n(now),
                ":one": _n(1),
                ":shard": {"S": DUE_SHARD},
            },
            condition="attribute_not_exists(lease_owner) OR lease_until < :now",
            returned="ALL_OLD",
        )
        if item is None:
            return None
        attempts = _count(item, "attempts") + 1
        return Lease(run, owner, _count(item, "hints"), attempts, _keys(item))

    def release(
        self, lease: Lease, due_at: float | None, *, last: bool = False, attempts: int = 0
    ) -> Lease | None:
        values = {
            ":owner": {"S": lease.owner},
            ":hints": _n(lease.hints),
            ":attempts": _n(attempts),
            ":expires": _n(int(self._now()) + _RUN_DAYS),
        }
        sets = "SET done = :hints, attempts = :attempts, expires_at = :expires"
        removes = "REMOVE lease_owner, lease_until"
        if due_at is None:
            removes += ", due_shard, due_at"
        else:
            sets += ", due_shard = :shard, due_at = :due"
            values |= {":shard": {"S": DUE_SHARD}, ":due": _n(due_at)}
        condition = "lease_owner = :owner" + ("" if last else " AND hints = :hints")
        key = _run_key(lease.run)
        if self._update(key, f"{sets} {removes}", values, condition=condition) is not None:
            return None
        mine = {":owner": {"S": lease.owner}}
        item = self._update(
            key, "REMOVE file_keys", mine, condition="lease_owner = :owner", returned="ALL_OLD"
        )
        if item is None:
            return None
        return replace(lease, hints=_count(item, "hints"), keys=_keys(item))

    def abandon(self, lease: Lease) -> None:
        self._update(
            _run_key(lease.run),
            "REMOVE lease_owner, lease_until",
            {":owner": {"S": lease.owner}},
            condition="lease_owner = :owner",
        )

    def remember_job(self, job: str, run: str) -> None:
        self._update(
            {"pk": {"S": f"job#{job}"}},
            "ADD runs :run SET expires_at = :expires",
            {
                ":run": {"SS": [run]},
                ":expires": _n(int(self._now()) + _JOB_DAYS),
                ":most": _n(_MOST_RUNS),
            },
            condition="attribute_not_exists(runs) OR size(runs) < :most",
        )

    def runs_of(self, job: str) -> Sequence[str]:
        answer = self._dynamodb.get_item(
            TableName=self._table, Key={"pk": {"S": f"job#{job}"}}, ConsistentRead=True
        )
        return sorted(answer.get("Item", {}).get("runs", {}).get("SS", ()))

    def _update(
        self,
        key: dict[str, Any],
        expression: str,
        values: dict[str, Any],
        condition: str | None = None,
        returned: str = "ALL_NEW",
    ) -> dict[str, Any] | None:
        """The item after the update, or before it; None where the condition does not hold."""
        extra = {"ConditionExpression": condition} if condition else {}
        try:
            answer = self._dynamodb.update_item(
                TableName=self._table,
                Key=key,
                UpdateExpression=expression,
                ExpressionAttributeValues=values,
                ReturnValues=returned,
                **extra,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == _REFUSED:
                return None
            raise
        item: dict[str, Any] = answer.get("Attributes", {})
        return item


def due_items(dynamodb: Any, table: str, now: float) -> Iterator[str]:
    """Keys of what patrol should look at, longest due first; only such are in the index."""
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        IndexName="due",
        KeyConditionExpression="due_shard = :shard AND due_at <= :now",
        ExpressionAttributeValues={":shard": {"S": DUE_SHARD}, ":now": _n(now)},
    )
    for page in pages:
        for item in page["Items"]:
            yield item["pk"]["S"]


def _run_key(run: str) -> dict[str, Any]:
    return {"pk": {"S": f"{RUN_PREFIX}{run}"}}


def _n(number: float) -> dict[str, str]:
    return {"N": repr(round(number, 3))}


def _keys(item: dict[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(item.get("file_keys", {}).get("SS", ())))


def _count(item: dict[str, Any], name: str) -> int:
    return int(float(item.get(name, {}).get("N", "0")))
