"""The monthly cap on SMS, which cost money."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from tocsin.alerts.aws._items import number

_DAYS = 400 * 24 * 3600


@dataclass(frozen=True)
class TextCap:
    """Counts the SMS of a month (UTC) in an item ``sms#2026-11``."""

    dynamodb: Any
    table: str
    cap: int
    now: Callable[[], float]

    def may(self, texts: int) -> str | None:
        """None, and they are counted; or why so many more are not to be sent."""
        month = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m")
        if texts > self.cap or not self._counted(month, texts):
            return (
                f"{texts} SMS more would pass this deployment's cap of {self.cap} in {month} "
                "(smsMonthlyCap)"
            )
        return None

    def _counted(self, month: str, texts: int) -> bool:
        try:
            self.dynamodb.update_item(
                TableName=self.table,
                Key={"pk": {"S": f"sms#{month}"}},
                UpdateExpression="ADD sent :texts SET expires_at = :expires",
                ConditionExpression="attribute_not_exists(sent) OR sent <= :room",
                ExpressionAttributeValues={
                    ":texts": number(texts),
                    ":room": number(self.cap - texts),
                    ":expires": number(int(self.now()) + _DAYS),
                },
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True
