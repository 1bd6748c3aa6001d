"""Receives the events of both buses through a queue, as any subscriber would."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tocsin.events import SOURCE

Event = dict[str, Any]

JOB = "SageMaker Training Job State Change"


@dataclass(frozen=True)
class Events:
    """A queue that gets Tocsin's events and SageMaker's."""

    sqs: Any
    queue_url: str

    def receive(self, wait: int = 1) -> list[Event]:
        """The events in the queue; waits ``wait`` seconds for the first."""
        answer = self.sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=wait
        )
        received = answer.get("Messages", [])
        for message in received:
            handle = message["ReceiptHandle"]
            self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=handle)
        return [json.loads(message["Body"]) for message in received]


def listen(client: Callable[[str], Any], bus: str, name: str) -> Events:
    """Route both buses into a new queue."""
    sqs, events = client("sqs"), client("events")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    for on, source in ((bus, SOURCE), ("default", "aws.sagemaker")):
        pattern = json.dumps({"source": [source]})
        events.put_rule(Name=name, EventBusName=on, EventPattern=pattern)
        events.put_targets(
            Rule=name,
            EventBusName=on,
            Targets=[{"Id": name, "Arn": attributes["QueueArn"]}],
        )
    return Events(sqs, url)
