"""The adapters of actions against AWS in process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from tocsin.actions import JobToStop, NotRunning, TopicMessage
from tocsin.aws.connect.act import connect_act
from tocsin.aws.events import Bus, NotPublished
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.aws.settings import filter_policy
from tocsin.aws.sns import Topic
from tocsin.events import ActionTaken

from .conftest import RUN, Deployment

ARN = "arn:aws:sagemaker:us-east-1:111122223333:training-job/j1"
TOPIC = "arn:aws:sns:us-east-1:111122223333:alerts"


@pytest.fixture
def sagemaker(deployment: Deployment) -> Iterator[tuple[SageMakerJobs, Stubber]]:
    client = boto3.client("sagemaker")
    with Stubber(client) as stubber:
        yield SageMakerJobs(client), stubber
        stubber.assert_no_pending_responses()


def described(**more: Any) -> dict[str, Any]:
    return {
        "TrainingJobName": "j1",
        "TrainingJobArn": ARN,
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://out/model.tar.gz"},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 1},
        "CreationTime": datetime(2026, 1, 1, tzinfo=UTC),
        **more,
    }


@pytest.mark.parametrize(
    ("more", "outputs"),
    [
        ({}, ()),
        ({"DebugHookConfig": {"S3OutputPath": "s3://a/b"}}, ("s3://a/b",)),
        ({"CheckpointConfig": {"S3Uri": "s3://c/d"}}, ("s3://c/d",)),
        (
            {
                "DebugHookConfig": {"S3OutputPath": "s3://a/b"},
                "CheckpointConfig": {"S3Uri": "s3://c/d"},
            },
            ("s3://a/b", "s3://c/d"),
        ),
    ],
)
def test_describes_a_job(sagemaker: Any, more: dict[str, Any], outputs: tuple[str, ...]) -> None:
    jobs, stubber = sagemaker
    stubber.add_response("describe_training_job", described(**more), {"TrainingJobName": "j1"})
    assert jobs.to_stop("j1") == JobToStop(ARN, "InProgress", outputs)


@pytest.mark.parametrize(
    ("resources", "machines"),
    [
        ({}, {}),
        ({"InstanceType": "ml.g5.xlarge", "InstanceCount": 2}, {"ml.g5.xlarge": 2}),
        (
            {
                "InstanceGroups": [
                    {"InstanceType": kind, "InstanceCount": count, "InstanceGroupName": kind[3:5]}
                    for kind, count in (("ml.c5.xlarge", 4), ("ml.g5.xlarge", 1))
                ]
            },
            {"ml.c5.xlarge": 4, "ml.g5.xlarge": 1},
        ),
    ],
)
def test_the_machines_of_a_job(
    sagemaker: Any, resources: dict[str, Any], machines: dict[str, int]
) -> None:
    jobs, stubber = sagemaker
    job = described(ResourceConfig={"VolumeSizeInGB": 1, **resources})
    stubber.add_response("describe_training_job", job, {"TrainingJobName": "j1"})
    assert jobs.describe("j1").machines == machines


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("ValidationException", "Requested resource not found."),
        ("ValidationException", "Could not find training job 'j1'."),
        ("ResourceNotFound", ""),
    ],
)
def test_a_job_that_is_not_there(sagemaker: Any, code: str, words: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("describe_training_job", code, words)
    assert jobs.to_stop("j1") is None


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ThrottlingException", "ValidationException"]
)
def test_other_answers_are_raised(sagemaker: Any, code: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("describe_training_job", code, "no")
    stubber.add_client_error("stop_training_job", "ThrottlingException", "no")
    with pytest.raises(ClientError, match=code):
        jobs.to_stop("j1")
    with pytest.raises(ClientError, match="Throttling"):
        jobs.stop("j1")


def test_stops_a_job(sagemaker: Any) -> None:
    jobs, stubber = sagemaker
    stubber.add_response("stop_training_job", {}, {"TrainingJobName": "j1"})
    jobs.stop("j1")


@pytest.mark.parametrize("code", ["ValidationException", "ResourceNotFound"])
def test_a_job_that_ended_cannot_be_stopped(sagemaker: Any, code: str) -> None:
    jobs, stubber = sagemaker
    stubber.add_client_error("stop_training_job", code, "is in status Completed")
    with pytest.raises(NotRunning, match="Completed"):
        jobs.stop("j1")


def test_reads_all_pages_of_tags(sagemaker: Any) -> None:
    jobs, stubber = sagemaker
    pages: list[tuple[Mapping[str, Any], Mapping[str, str]]] = [
        ({"Tags": [{"Key": "team", "Value": "x"}], "NextToken": "2"}, {"ResourceArn": ARN}),
        (
            {"Tags": [{"Key": "tocsin:run", "Value": RUN}]},
            {"ResourceArn": ARN, "NextToken": "2"},
        ),
    ]
    for answer, asked in pages:
        stubber.add_response("list_tags", answer, asked)
    assert jobs.tags(ARN) == {"team": "x", "tocsin:run": RUN}


@pytest.mark.parametrize(
    ("run", "key"),
    [
        ("s3://captures", "STOP.json"),
        ("s3://captures/j1", "j1/STOP.json"),
        ("s3://captures/a/../j1/", "a/../j1/STOP.json"),
    ],
)
def test_writes_into_the_run(deployment: Deployment, run: str, key: str) -> None:
    connect_act(deployment.settings).effects.write(run, "STOP.json", b"{}")
    [stored] = boto3.client("s3").list_objects_v2(Bucket="captures")["Contents"]
    assert stored["Key"] == key


def test_publishes_any_text(deployment: Deployment) -> None:
    texts = {"default": '層\n"quoted"', "email": "e", "sms": "s"}
    sns = boto3.client("sns")
    Topic(sns, deployment.topic).publish(TopicMessage(texts, {"action": "sms", "job": "実験"}))
    [got] = deployment.received(deployment.sms)
    assert got["Message"] == texts["default"]
    assert "Subject" not in got


def test_a_message_for_everybody_reaches_who_is_subscribed_for_what_is_his_own(
    deployment: Deployment,
) -> None:
    sns, names = boto3.client("sns"), ("a@example.org", "b@example.org", "c@example.org")
    queues = {}
    for name in names:
        queues[name] = deployment.sqs.create_queue(QueueName=name[0])["QueueUrl"]
        sns.subscribe(
            TopicArn=deployment.topic,
            Protocol="sqs",
            Endpoint=f"arn:aws:sqs:us-east-1:123456789012:{name[0]}",
            Attributes={"FilterPolicy": json.dumps(filter_policy("email", name))},
        )
    topic = Topic(sns, deployment.topic, {"email": names[:2], "sms": ()})
    topic.publish(TopicMessage({"default": "all"}, {"action": "email"}))
    topic.publish(TopicMessage({"default": "one"}, {"action": f"email:{names[0]}"}))
    texts = {
        name: [got["Message"] for got in deployment.received(url)] for name, url in queues.items()
    }
    assert texts == {names[0]: ["all", "one"], names[1]: ["all"], names[2]: []}
    assert [got["Message"] for got in deployment.received(deployment.email)] == ["all"]


def test_one_phone_is_reached_without_a_subscription(sns: Any) -> None:
    client, stubber = sns
    transactional = {"DataType": "String", "StringValue": "Transactional"}
    asked = {
        "PhoneNumber": "+15551230000",
        "Message": "short",
        "MessageAttributes": {"AWS.SNS.SMS.SMSType": transactional},
    }
    stubber.add_response("publish", {"MessageId": "m"}, asked)
    texts = {"default": "short", "sms": "short"}
    Topic(client, TOPIC).publish(TopicMessage(texts, {"action": "sms:+1"}, phone="+15551230000"))


def test_an_event_that_the_bus_refuses_is_no_success(deployment: Deployment) -> None:
    client = boto3.client("events")
    refusal = {"ErrorCode": "InternalFailure", "ErrorMessage": "try again"}
    with Stubber(client) as stubber:
        stubber.add_response("put_events", {"FailedEntryCount": 1, "Entries": [refusal]})
        with pytest.raises(NotPublished, match=r"bus tocsin refused 1 events: .*try again"):
            Bus(client, "tocsin").put(
                ActionTaken("j1", RUN, None, "Overfit", "email", None, "done", "fired", "", "d")
            )


# ---- who is subscribed


def test_subscribes_once_with_a_filter_of_its_own(deployment: Deployment) -> None:
    sns = boto3.client("sns")
    topic = Topic(sns, deployment.topic)
    for _ in range(2):
        topic.subscribe(RUN, "email", "a@example.org")
    found = sns.list_subscriptions_by_topic(TopicArn=deployment.topic)["Subscriptions"]
    [mine] = [each for each in found if each["Protocol"] == "email"]
    attributes = sns.get_subscription_attributes(SubscriptionArn=mine["SubscriptionArn"])
    policy = json.loads(attributes["Attributes"]["FilterPolicy"])
    assert policy == {"action": ["email:a@example.org"]}


def subscription(arn: str, endpoint: str = "a@example.org") -> dict[str, str]:
    return {
        "SubscriptionArn": arn,
        "Protocol": "email",
        "Endpoint": endpoint,
        "TopicArn": TOPIC,
        "Owner": "111122223333",
    }


@pytest.fixture
def sns(deployment: Deployment) -> Iterator[tuple[Any, Stubber]]:
    client = boto3.client("sns")
    with Stubber(client) as stubber:
        yield client, stubber
        stubber.assert_no_pending_responses()


def listed(stubber: Stubber, *pages: list[dict[str, str]]) -> None:
    for number, page in enumerate(pages, 1):
        asked = {"TopicArn": TOPIC} | ({"NextToken": str(number)} if number > 1 else {})
        more = {"NextToken": str(number + 1)} if number < len(pages) else {}
        answer = {"Subscriptions": page, **more}
        stubber.add_response("list_subscriptions_by_topic", answer, asked)


OTHERS = [subscription(f"{TOPIC}:{number}", f"b{number}@example.org") for number in range(3)]


@pytest.mark.parametrize(
    ("arns", "why"),
    [
        (["PendingConfirmation"], "has not confirmed"),
        (["Deleted"], "has unsubscribed"),
        (["Deleted", "PendingConfirmation"], "has not confirmed"),
    ],
)
def test_whoever_does_not_receive_is_told_of(sns: Any, arns: list[str], why: str) -> None:
    client, stubber = sns
    listed(stubber, OTHERS, [subscription(arn) for arn in arns])
    said = Topic(client, TOPIC).subscribe(RUN, "email", "a@example.org")
    assert said is not None
    assert said.startswith("a@example.org " + why)


def test_a_new_address_has_to_confirm(sns: Any) -> None:
    client, stubber = sns
    listed(stubber, OTHERS)
    asked = {
        "TopicArn": TOPIC,
        "Protocol": "email",
        "Endpoint": "a@example.org",
        "Attributes": {"FilterPolicy": '{"action":["email:a@example.org"]}'},
    }
    stubber.add_response("subscribe", {"SubscriptionArn": "pending confirmation"}, asked)
    said = Topic(client, TOPIC).subscribe(RUN, "email", "a@example.org")
    assert said is not None
    assert "has not confirmed" in said


def test_only_a_new_subscription_is_counted(sns: Any) -> None:
    client, stubber = sns
    counted: list[str] = []

    def reserve(run: str) -> str:
        counted.append(run)
        return "no more"

    topic = Topic(client, TOPIC, reserve=reserve)
    listed(stubber, [subscription("PendingConfirmation")])
    assert "has not confirmed" in (topic.subscribe(RUN, "email", "a@example.org") or "")
    assert counted == []
    listed(stubber, OTHERS)
    assert topic.subscribe(RUN, "email", "a@example.org") == "no more"
    assert counted == [RUN]


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        (None, True),
        ("", True),
        ("{}", True),
        ('{"severity": ["critical"]}', True),
        ('{"action": ["email:a@example.org"]}', True),
        ('{"action": ["email", "email:a@example.org", {"exists": false}]}', True),
        ('{"action": ["email"]}', False),
        ('{"action": [{"exists": false}]}', False),
    ],
)
def test_a_filter_that_keeps_it_out_is_told_of(sns: Any, policy: str | None, passes: bool) -> None:
    client, stubber = sns
    listed(stubber, OTHERS, [subscription(f"{TOPIC}:mine")])
    attributes = {} if policy is None else {"FilterPolicy": policy}
    asked = {"SubscriptionArn": f"{TOPIC}:mine"}
    stubber.add_response("get_subscription_attributes", {"Attributes": attributes}, asked)
    said = Topic(client, TOPIC).subscribe(RUN, "email", "a@example.org")
    assert (said is None) is passes
    assert said is None or 'add "email:a@example.org" to its "action"' in said


def test_who_has_not_confirmed(sns: Any) -> None:
    client, stubber = sns
    pending = [subscription("PendingConfirmation", name) for name in ("z@b.c", "a@b.c")]
    listed(stubber, [pending[0], *OTHERS], [subscription("Deleted", "d@b.c"), pending[1]])
    assert Topic(client, TOPIC).unconfirmed() == ["a@b.c", "z@b.c"]
