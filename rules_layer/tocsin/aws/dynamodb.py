"""The deployment's table: single items, changed atomically or committed on a version."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from tocsin.aws.clients import error_code
from tocsin.aws.settings import DUE_INDEX, DUE_SHARDS

_TRIES = 10  # at a commit, when others commit at the same time
_REFUSED = "ConditionalCheckFailedException"

T = TypeVar("T")
Item = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """Items by their key ``pk``.

    An item that is committed on a version is a ``body``, of a form that its owner knows, and the
    ``version``. One that has a ``due_at`` is in the index of what is due.
    """

    client: Any
    name: str

    def get(self, key: str) -> Item | None:
        answer = self.client.get_item(TableName=self.name, Key=_key(key), ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def update(
        self,
        key: str,
        expression: str,
        values: Item,
        condition: str | None = None,
        returned: str = "ALL_NEW",
    ) -> Item | None:
        """Return the item after the update, or before it; None where the condition does not
        hold."""
        extra = {"ConditionExpression": condition} if condition else {}
        try:
            answer = self.client.update_item(
                TableName=self.name,
                Key=_key(key),
                UpdateExpression=expression,
                ExpressionAttributeValues=values,
                ReturnValues=returned,
                **extra,
            )
        except ClientError as error:
            if error_code(error) == _REFUSED:
                return None
            raise
        item: Item = answer.get("Attributes", {})
        return item

    def load(self, key: str) -> tuple[bytes | None, int | None]:
        """Return the body and the version to commit on; None and None where there is no such
        item."""
        if (item := self.get(key)) is None:
            return None, None
        return bytes(item["body"]["B"]), int(item["version"]["N"])

    def save(
        self, key: str, body: bytes, version: int | None, more: Mapping[str, Any] | None = None
    ) -> int:
        """Commit on ``version`` and return the new one. Raises CommitConflict."""
        from tocsin.alerts import CommitConflict  # here: patrol, which only reads, does without

        new = (version or 0) + 1
        condition: Item = {"ConditionExpression": "attribute_not_exists(pk)"}
        if version is not None:
            condition = {
                "ConditionExpression": "version = :version",
                "ExpressionAttributeValues": {":version": number(version)},
            }
        item = {**_key(key), "body": {"B": body}, "version": number(new), **(more or {})}
        try:
            self.client.put_item(TableName=self.name, Item=item, **condition)
        except ClientError as error:
            if error_code(error) == _REFUSED:
                raise CommitConflict(key) from error
            raise
        return new

    def change(self, key: str, edit: Callable[[bytes | None], tuple[bytes | None, T]]) -> T:
        """``edit`` makes of a body another, or None to leave it, and an answer. It is called again
        each time that somebody else commits in between. Raises CommitConflict if that does not end.
        """
        from tocsin.alerts import CommitConflict

        for _ in range(_TRIES):
            body, version = self.load(key)
            edited, answer = edit(body)
            try:
                if edited is not None:
                    self.save(key, edited, version)
            except CommitConflict:
                continue
            return answer
        raise CommitConflict(f"{key}: {_TRIES} others have committed")

    def due(self, now: float) -> Iterator[str]:
        """Keys of the items that patrol should look at, longest due first."""
        shards = (self._due_in(str(shard), now) for shard in range(DUE_SHARDS))
        for _, key in heapq.merge(*shards):
            yield key

    def _due_in(self, shard: str, now: float) -> Iterator[tuple[float, str]]:
        pages = self.client.get_paginator("query").paginate(
            TableName=self.name,
            IndexName=DUE_INDEX,
            KeyConditionExpression="due_shard = :shard AND due_at <= :now",
            ExpressionAttributeValues={":shard": {"S": shard}, ":now": number(now)},
        )
        for page in pages:
            for item in page["Items"]:
                yield float(item["due_at"]["N"]), item["pk"]["S"]


def due_shard(key: str) -> dict[str, str]:
    """Return the partition of the index that an item is in. Items of earlier versions are all in
    "0"."""
    return {"S": str(zlib.crc32(key.encode()) % DUE_SHARDS)}


def number(value: float) -> dict[str, str]:
    """Return a number as DynamoDB writes it; times are kept to the millisecond."""
    return {"N": repr(round(value, 3))}


def _key(key: str) -> Item:
    return {"pk": {"S": key}}
