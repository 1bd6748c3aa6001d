"""How long a message that failed stays away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 900
_WAITS = (15, 45, 135, 405)  # seconds, after the first, second … try


@dataclass(frozen=True)
class BackOff:
    """For messages of one queue, as Lambda hands them out."""

    sqs: Any
    queue_url: str

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Keeps a message that is about to fail away, longer each time."""
        self.sqs.change_message_visibility(
            QueueUrl=self.queue_url,
            ReceiptHandle=record["receiptHandle"],
            VisibilityTimeout=wait(int(record["attributes"]["ApproximateReceiveCount"])),
        )


def wait(receives: int) -> int:
    """Seconds after a message has been received so many times."""
    return dict(enumerate(_WAITS, 1)).get(receives, _LONGEST)
