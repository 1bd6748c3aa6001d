from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest

from local.mailbox import Mailbox, MailboxMessage, Sms, read_sms
from tests.waiting import PATIENCE


@pytest.fixture
def sns(aws_in_process: None) -> Any:
    return boto3.client("sns")


@pytest.fixture
def topic(sns: Any) -> str:
    return str(sns.create_topic(Name="alerts")["TopicArn"])


@pytest.fixture
def mailbox(sns: Any, topic: str) -> Mailbox:
    return Mailbox(boto3.client("sqs", "us-east-1"), sns, topic)


def attribute(value: str) -> dict[str, Any]:
    return {"action": {"DataType": "String", "StringValue": value}}


def test_what_the_topic_sends_arrives_once_with_its_attributes(
    sns: Any, topic: str, mailbox: Mailbox
) -> None:
    sns.publish(
        TopicArn=topic, Subject="Hello", Message="Body\n2", MessageAttributes=attribute("sms")
    )
    assert mailbox.receive() == [MailboxMessage("Hello", "Body\n2", {"action": "sms"})]
    assert mailbox.receive() == []


def test_more_messages_than_one_batch_holds(sns: Any, topic: str, mailbox: Mailbox) -> None:
    for number in range(23):
        sns.publish(TopicArn=topic, Message=str(number))
    assert {message.body for message in mailbox.receive()} == {str(n) for n in range(23)}


@pytest.mark.parametrize(
    ("attributes", "by_email"),
    [({"action": "email"}, True), ({"action": "sms"}, False), ({"severity": "critical"}, True)],
)
def test_who_is_written_to_by_email(attributes: dict[str, str], by_email: bool) -> None:
    assert MailboxMessage("", "", attributes).by_email is by_email


def test_waiting_for_one_message_passes_over_others(sns: Any, topic: str, mailbox: Mailbox) -> None:
    sns.publish(TopicArn=topic, Subject="one", Message="1")
    sns.publish(TopicArn=topic, Subject="two", Message="2")
    assert mailbox.wait_for(lambda message: message.subject == "two", PATIENCE).body == "2"


def test_waiting_in_vain_tells_what_came_instead(sns: Any, topic: str, mailbox: Mailbox) -> None:
    sns.publish(TopicArn=topic, Subject="other", Message="1")
    with pytest.raises(TimeoutError, match=r"within 0\.1 s; others: \['other'\]"):
        mailbox.wait_for(lambda message: False, 0.1)


def test_text_messages_are_read_from_the_emulator() -> None:
    records = {"+15551230000": [{"Message": "a"}, {"Message": "b"}], "+15551230001": []}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/_ministack/sns/sms-messages"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"sms_messages": records}).encode())

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        found = read_sms(f"http://127.0.0.1:{server.server_port}")
        thread.join()
    assert found == [Sms("+15551230000", "a"), Sms("+15551230000", "b")]
