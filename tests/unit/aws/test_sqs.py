from __future__ import annotations

import pytest
from tocsin.aws.sqs import Queue


class Sqs:
    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []

    def change_message_visibility(self, **asked: object) -> None:
        self.asked.append(asked)


@pytest.mark.parametrize(
    ("receives", "seconds"), [(1, 15), (2, 45), (3, 135), (4, 405), (5, 900), (99, 900)]
)
def test_stays_away_longer_each_time(receives: int, seconds: int) -> None:
    sqs = Sqs()
    record = {
        "receiptHandle": "handle",
        "attributes": {"ApproximateReceiveCount": str(receives)},
    }
    Queue(sqs, "https://sqs/act").back_off(record)
    assert sqs.asked == [
        {
            "QueueUrl": "https://sqs/act",
            "ReceiptHandle": "handle",
            "VisibilityTimeout": seconds,
        }
    ]
