"""The deployment's topic: what is published to it, and who is subscribed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tocsin.actions import TopicMessage
from tocsin.aws.clients import AWS_ERRORS
from tocsin.aws.settings import filter_policy

# In place of an ARN: in a listing and in the answer of Subscribe; after an end.
_PENDING = ("PendingConfirmation", "pending confirmation")
_DELETED = "Deleted"
_PEOPLE = ("email", "email-json", "sms")  # other protocols bring messages to programs
# An alert is worth the dearer way: a promotional SMS may be dropped or come hours later.
_TRANSACTIONAL = {
    "AWS.SNS.SMS.SMSType": {"DataType": "String", "StringValue": "Transactional"},
}


@dataclass(frozen=True)
class Topic:
    """everybody: the deployment's own recipients, by protocol.

    reserve: counts a new subscription that a run (URL) asks for: None, or why it must not be made.
    """

    client: Any
    arn: str
    everybody: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reserve: Callable[[str], str | None] = lambda run: None

    def publish(self, message: TopicMessage) -> None:
        """Publish to the topic, or to the one phone that the message is for.

        A phone needs no subscription: a new one's filter takes up to 15 minutes to work, and
        messages until then would be lost.
        """
        if message.phone:
            self.client.publish(
                PhoneNumber=message.phone,
                Message=message.texts["sms"],
                MessageAttributes=_TRANSACTIONAL,
            )
            return
        subject = {"Subject": message.subject} if message.subject else {}
        self.client.publish(
            TopicArn=self.arn,
            MessageStructure="json",
            Message=msgspec.json.encode(message.texts).decode(),
            MessageAttributes=self._attributes(message.attributes) | _TRANSACTIONAL,
            **subject,
        )

    def _attributes(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The message attributes; an action for everybody also names each of its recipients."""
        attributes = {
            name: {"DataType": "String", "StringValue": text} for name, text in given.items()
        }
        action = given.get("action", "")
        if recipients := self.everybody.get(action):
            named = [action, *(f"{action}:{each}" for each in recipients)]
            attributes["action"] = {"DataType": "String.Array", "StringValue": json.dumps(named)}
        return attributes

    def subscribe(self, run: str, protocol: str, endpoint: str) -> str | None:
        """Sees to it that ``endpoint`` gets what is published for it alone, with the attribute
        ``action`` = ``PROTOCOL:ENDPOINT``. None when it does, else why it does not (yet).
        """
        action = f"{protocol}:{endpoint}"
        arn = self._found(protocol, endpoint)
        if arn is None:
            if why := self.reserve(run):
                return why
            arn = self._subscribe(protocol, endpoint)
        elif arn not in (*_PENDING, _DELETED) and not self._passes(arn, action):
            return (
                f"the filter policy of {endpoint} blocks messages to this subscriber alone: "
                f'add "{action}" to its "action"'
            )
        if arn == _DELETED:
            return f"{endpoint} has unsubscribed from the deployment's topic"
        if arn in _PENDING:
            return (
                f"{endpoint} has not confirmed its subscription: the link is in the e-mail that "
                "AWS Notifications has sent there"
            )
        return None

    def reaches(self, kind: str) -> bool:
        """Return whether anybody gets what is published as ``email`` or ``sms``: people who
        confirmed, or a program. Yes, if that cannot be read.
        """
        others = {*_PEOPLE} - {kind, f"{kind}-json"}
        try:
            return any(
                each["SubscriptionArn"] not in (*_PENDING, _DELETED)
                and each["Protocol"] not in others
                for each in self._subscriptions()
            )
        except AWS_ERRORS:
            return True

    def unconfirmed(self) -> list[str]:
        """Endpoints that get nothing before they confirm their subscription."""
        return sorted(
            each["Endpoint"]
            for each in self._subscriptions()
            if each["SubscriptionArn"] in _PENDING
        )

    def _found(self, protocol: str, endpoint: str) -> str | None:
        arns = [
            each["SubscriptionArn"]
            for each in self._subscriptions()
            if (each["Protocol"], each["Endpoint"]) == (protocol, endpoint)
        ]
        return min(arns, key=_DELETED.__eq__, default=None)

    def _subscribe(self, protocol: str, endpoint: str) -> str:
        policy = filter_policy(protocol, endpoint)
        answer = self.client.subscribe(
            TopicArn=self.arn,
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes={"FilterPolicy": json.dumps(policy, separators=(",", ":"))},
        )
        arn: str = answer["SubscriptionArn"]
        return arn

    def _subscriptions(self) -> Iterator[Mapping[str, str]]:
        pages = self.client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=self.arn)
        for page in pages:
            yield from page["Subscriptions"]

    def _passes(self, subscription: str, action: str) -> bool:
        """Return whether the filter policy lets ``action`` through, as far as it is about
        actions."""
        answer = self.client.get_subscription_attributes(SubscriptionArn=subscription)
        policy = json.loads(answer["Attributes"].get("FilterPolicy") or "{}")
        return action in policy.get("action", [action])
