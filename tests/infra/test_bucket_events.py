from __future__ import annotations

import io
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tocsin_cdk.bucket_events import handler as module
from tocsin_cdk.bucket_events.handler import check_place, handler, switch_on

QUEUE = {"Id": "theirs", "QueueArn": "arn:aws:sqs:::theirs", "Events": ["s3:ObjectCreated:*"]}
ON = {"EventBridgeConfiguration": {}}


class Bucket:
    """S3's notification calls over one bucket, which only its owner's account may use."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self.configuration = configuration
        self.puts: list[dict[str, Any]] = []
        self.location: str | None = "eu-central-1"

    def get_bucket_notification_configuration(
        self,
        *,
        Bucket: str,  # noqa: N803
        ExpectedBucketOwner: str,  # noqa: N803
    ) -> dict[str, Any]:
        if (Bucket, ExpectedBucketOwner) != ("runs", "111122223333"):
            raise PermissionError("Access Denied")
        return {"ResponseMetadata": {"HTTPStatusCode": 200}, **self.configuration}

    def get_bucket_location(
        self,
        *,
        Bucket: str,  # noqa: N803
        ExpectedBucketOwner: str,  # noqa: N803
    ) -> dict[str, Any]:
        if (Bucket, ExpectedBucketOwner) != ("runs", "111122223333"):
            error = {"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}
            raise ClientError(error, "GetBucketLocation")
        return {"LocationConstraint": self.location}

    def put_bucket_notification_configuration(self, **call: Any) -> None:
        self.puts.append(call)
        self.configuration = call["NotificationConfiguration"]


@pytest.mark.parametrize(
    ("before", "after", "puts"),
    [
        ({}, ON, 1),
        ({"QueueConfigurations": [QUEUE]}, {"QueueConfigurations": [QUEUE], **ON}, 1),
        (
            {"TopicConfigurations": [{"Id": "t"}], "LambdaFunctionConfigurations": [{"Id": "f"}]},
            {
                "TopicConfigurations": [{"Id": "t"}],
                "LambdaFunctionConfigurations": [{"Id": "f"}],
                **ON,
            },
            1,
        ),
        ({"QueueConfigurations": [QUEUE], **ON}, {"QueueConfigurations": [QUEUE], **ON}, 0),
    ],
)
def test_events_are_added_and_the_rest_is_kept(
    before: dict[str, Any], after: dict[str, Any], puts: int
) -> None:
    bucket = Bucket(before)
    switch_on(bucket, "runs", "111122223333")
    assert bucket.configuration == after
    assert len(bucket.puts) == puts
    for call in bucket.puts:
        assert call["ExpectedBucketOwner"] == "111122223333"
        assert call["SkipDestinationValidation"] is True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The answer that CloudFormation gets."""
    bodies: list[dict[str, Any]] = []

    def receive(request: Any, timeout: float) -> io.BytesIO:
        assert request.get_method() == "PUT"
        assert request.full_url == "https://answer.example/"
        bodies.append(json.loads(request.data))
        return io.BytesIO()

    monkeypatch.setattr(module.urllib.request, "urlopen", receive)
    return bodies


def request(kind: str, bucket: str = "runs") -> dict[str, Any]:
    return {
        "RequestType": kind,
        "ResponseURL": "https://answer.example/",
        "StackId": "s",
        "RequestId": "r",
        "LogicalResourceId": "l",
        "ResourceProperties": {"Bucket": bucket, "Account": "111122223333"},
    }


@pytest.mark.parametrize(
    ("kind", "bucket", "status", "puts"),
    [
        ("Create", "runs", "SUCCESS", 1),
        ("Update", "runs", "SUCCESS", 1),
        ("Delete", "runs", "SUCCESS", 0),
        ("Create", "somebody-elses", "FAILED", 0),
        ("Delete", "somebody-elses", "SUCCESS", 0),
    ],
)
def test_cloudformation_gets_an_answer_in_any_case(
    answers: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    bucket: str,
    status: str,
    puts: int,
) -> None:
    s3 = Bucket({})
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setattr(module.boto3, "client", lambda service: s3)
    handler(request(kind, bucket), None)
    (answer,) = answers
    assert answer["Status"] == status
    assert answer["PhysicalResourceId"] == f"{bucket}/events"
    assert (answer["StackId"], answer["RequestId"], answer["LogicalResourceId"]) == ("s", "r", "l")
    assert (status == "FAILED") == (
        "captureBucket somebody-elses is not a bucket of account 111122223333" in answer["Reason"]
    )
    assert len(s3.puts) == puts


@pytest.mark.parametrize(
    ("location", "region", "refused"),
    [
        ("eu-central-1", "eu-central-1", ""),
        (None, "us-east-1", ""),
        ("EU", "eu-west-1", ""),
        (
            "eu-west-1",
            "us-east-1",
            "captureBucket runs is in eu-west-1, this deployment in us-east-1",
        ),
        (None, "eu-west-1", "captureBucket runs is in us-east-1"),
    ],
)
def test_a_bucket_of_another_region_is_refused(
    location: str | None, region: str, refused: str
) -> None:
    bucket = Bucket({})
    bucket.location = location
    if not refused:
        check_place(bucket, "runs", "111122223333", region)
        return
    with pytest.raises(ValueError, match=refused):
        check_place(bucket, "runs", "111122223333", region)
