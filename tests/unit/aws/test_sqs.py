from __future__ import annotations

from typing import Any

import pytest
from tocsin.aws.sqs import Queue, Received
from tocsin.evaluation import Failures


class Sqs:
    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self.sent: list[str] = []

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, str]]) -> Any:  # noqa: N803
        self.sent += [entry["MessageBody"] for entry in Entries]
        return {"Failed": [{"Id": entry["Id"]} for entry in Entries if "c" in entry["MessageBody"]]}

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


def received(sqs: Sqs) -> Received:
    """Messages a, b and c; a was tried before."""
    tries = {"a": 2, "b": 1, "c": 1}
    records = [
        {
            "messageId": name,
            "body": f"body {name}",
            "receiptHandle": f"handle {name}",
            "attributes": {"ApproximateReceiveCount": str(times)},
        }
        for name, times in tries.items()
    ]
    return Received(Queue(sqs, "https://sqs/evaluate"), records)


def test_what_was_tried_before_comes_last() -> None:
    assert list(received(Sqs()).bodies) == ["b", "c", "a"]


def test_handed_on_is_a_new_message_and_what_the_queue_refuses_is_named() -> None:
    sqs = Sqs()
    assert received(sqs).hand_on({"b", "c"}) == {"c"}
    assert sqs.sent == ["body b", "body c"]


def test_failed_messages_stay_away_and_are_named_to_lambda() -> None:
    sqs = Sqs()
    answer = received(sqs).answer(Failures({"b"}, [OSError("no")]))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "b"}]}
    assert [asked["ReceiptHandle"] for asked in sqs.asked] == ["handle b"]


def test_where_all_failed_the_invocation_has_failed() -> None:
    with pytest.raises(OSError, match="no"):
        received(Sqs()).answer(Failures({"a", "b", "c"}, [OSError("no")]))
