"""A message that always fails ends in the dead-letter queue of the deployed stack."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from local.stack import LocalAws
from tests.waiting import patiently

pytestmark = pytest.mark.e2e


@pytest.fixture
def poison(aws: LocalAws) -> Iterator[str]:
    """A message in the evaluate queue that always fails.

    It has one try instead of five, whose pauses take half an hour.
    """
    sqs, url = aws.client("sqs"), aws.outputs["EvaluateQueueUrl"]
    name = "RedrivePolicy"
    before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
    once = {**json.loads(before), "maxReceiveCount": 1}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: json.dumps(once)})
    body = json.dumps({"poison": uuid.uuid4().hex})
    sqs.send_message(QueueUrl=url, MessageBody=body)
    yield body
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: before})


def test_a_message_that_always_fails_ends_in_the_dead_letter_queue(
    aws: LocalAws, poison: str
) -> None:
    sqs, dead = aws.client("sqs"), aws.outputs["EvaluateDeadLetterQueueUrl"]
    for _ in patiently():
        answer = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=10, AttributeNames=["All"])
        for message in answer.get("Messages", []):
            if message["Body"] == poison:
                sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
                return
    pytest.fail("the message is not in the dead-letter queue")
