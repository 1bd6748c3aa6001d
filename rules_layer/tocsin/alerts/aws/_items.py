"""Items of the deployment's table that are read, changed and committed on a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from tocsin.alerts._ports import Conflict

_TRIES = 10  # at a commit, when others commit at the same time

T = TypeVar("T")


@dataclass(frozen=True)
class Items:
    """An item is a ``body``, of a form that its owner knows, and a ``version``."""

    dynamodb: Any
    table: str

    def load(self, key: str) -> tuple[bytes | None, int | None]:
        """The body and the version to commit on; None and None where there is no such item."""
        answer = self.dynamodb.get_item(
            TableName=self.table, Key={"pk": {"S": key}}, ConsistentRead=True
        )
        if (item := answer.get("Item")) is None:
            return None, None
        return bytes(item["body"]["B"]), int(item["version"]["N"])

    def save(
        self, key: str, body: bytes, version: int | None, more: Mapping[str, Any] | None = None
    ) -> int:
        """Commits on ``version`` and returns the new one. Raises Conflict."""
        new = (version or 0) + 1
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
        if version is not None:
            condition = {
                "ConditionExpression": "version = :version",
                "ExpressionAttributeValues": {":version": number(version)},
            }
        item = {"pk": {"S": key}, "body": {"B": body}, "version": number(new), **(more or {})}
        try:
            self.dynamodb.put_item(TableName=self.table, Item=item, **condition)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise Conflict(key) from error
            raise
        return new

    def change(self, key: str, edit: Callable[[bytes | None], tuple[bytes | None, T]]) -> T:
        """``edit`` makes of a body another, or None to leave it, and an answer; once more for each
        time that somebody else commits in between. Raises Conflict if that does not end.
        """
        for _ in range(_TRIES):
            body, version = self.load(key)
            edited, answer = edit(body)
            try:
                if edited is not None:
                    self.save(key, edited, version)
            except Conflict:
                continue
            return answer
        raise Conflict(f"{key}: {_TRIES} others have committed")


def number(value: float) -> dict[str, str]:
    """As DynamoDB has numbers; of times milliseconds are kept."""
    return {"N": repr(round(value, 3))}
