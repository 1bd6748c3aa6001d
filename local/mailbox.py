"""The messages that people would have got: e-mails, through a queue on the topic, and SMS."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MailboxMessage:
    """A message of the topic; ``attributes`` decide which subscribers get it."""

    subject: str
    body: str
    attributes: Mapping[str, str]

    @property
    def by_email(self) -> bool:
        """Return whether e-mail subscribers would have got it, all or one."""
        return self.attributes.get("action", "email").partition(":")[0] == "email"

    @property
    def by_sms(self) -> bool:
        return self.attributes.get("action", "").partition(":")[0] == "sms"


@dataclass(frozen=True)
class Sms:
    """A text message to one number."""

    phone: str
    body: str


class Mailbox:
    """A queue that gets every message of the topic, with the attributes for filters."""

    def __init__(self, sqs: Any, sns: Any, topic_arn: str) -> None:
        self._sqs = sqs
        self.queue_url: str = sqs.create_queue(QueueName="mailbox")["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]
        sns.subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=attributes["QueueArn"])

    @classmethod
    def at(cls, sqs: Any, queue_url: str) -> Mailbox:
        """The mailbox of an embedded AWS that is up."""
        mailbox = cls.__new__(cls)
        mailbox._sqs, mailbox.queue_url = sqs, queue_url
        return mailbox

    def receive(self, wait: float = 0) -> list[MailboxMessage]:
        """Removes and returns the messages; waits ``wait`` seconds (20 at most) for the first."""
        found: list[MailboxMessage] = []
        while batch := self._batch(0 if found else wait):
            found.extend(batch)
        return found

    def wait_for(self, wanted: Callable[[MailboxMessage], bool], timeout: float) -> MailboxMessage:
        """Remove messages until one is wanted. Raises TimeoutError with the other subjects."""
        deadline = time.monotonic() + timeout
        others: list[str] = []
        while (left := deadline - time.monotonic()) > 0:
            for message in self.receive(min(left, 20)):
                if wanted(message):
                    return message
                others.append(message.subject)
        raise TimeoutError(f"no such message within {timeout:g} s; others: {others or 'none'}")

    def _batch(self, wait: float) -> list[MailboxMessage]:
        answer = self._sqs.receive_message(
            QueueUrl=self.queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=round(wait)
        )
        received = answer.get("Messages", [])
        for message in received:
            self._sqs.delete_message(
                QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"]
            )
        return [_message(json.loads(message["Body"])) for message in received]


def _message(envelope: Mapping[str, Any]) -> MailboxMessage:
    attributes = envelope.get("MessageAttributes", {})
    return MailboxMessage(
        subject=envelope.get("Subject") or "",
        body=envelope["Message"],
        attributes={name: _text(attribute) for name, attribute in attributes.items()},
    )


def _text(attribute: Mapping[str, str]) -> str:
    """The value; the first of an array, which is the action that the others belong to."""
    value = attribute["Value"]
    return str(json.loads(value)[0]) if attribute["Type"] == "String.Array" else value


def read_sms(endpoint: str) -> list[Sms]:
    """All text messages since the emulator at ``endpoint`` started, by number, oldest first."""
    address = f"{endpoint}/_ministack/sns/sms-messages"
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
        by_phone = json.load(answer)["sms_messages"]
    return [
        Sms(phone, record["Message"]) for phone, records in by_phone.items() for record in records
    ]
