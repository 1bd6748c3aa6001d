from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from local.jobs import LocalJobs
from local.port import loopback_port, url
from local.reaper import Reaper
from local.sagemaker import BODY_LIMIT, serve
from tests.waiting import PATIENCE

ROLE = "arn:aws:iam::000000000000:role/training"
HOOK = {"S3OutputPath": "s3://bucket/runs", "LocalPath": "/opt/ml/output/tensors"}
RULES = [{"RuleConfigurationName": "V", "RuleEvaluatorImage": "i", "RuleParameters": {"n": "1"}}]
SLEEP = "import time; time.sleep(3600)"


@pytest.fixture
def jobs(reaper: Reaper) -> Iterator[LocalJobs]:
    with LocalJobs(reaper, {}, lambda job: None, grace=PATIENCE) as jobs:
        yield jobs


@pytest.fixture
def endpoint(jobs: LocalJobs) -> Iterator[str]:
    with loopback_port() as port:
        address = url(port)
        with serve(port, jobs):
            yield address


@pytest.fixture
def sagemaker(endpoint: str) -> Any:
    return boto3.client(
        "sagemaker",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def create(sagemaker: Any, name: str, code: str = "", **more: Any) -> str:
    answer = sagemaker.create_training_job(
        TrainingJobName=name,
        RoleArn=ROLE,
        AlgorithmSpecification={
            "TrainingImage": "none",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [sys.executable, "-c"],
            "ContainerArguments": [code or "pass"],
        },
        OutputDataConfig={"S3OutputPath": "s3://bucket/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        **more,
    )
    return str(answer["TrainingJobArn"])


def test_a_job_from_creation_to_its_end(sagemaker: Any, jobs: LocalJobs) -> None:
    before = datetime.now(UTC)
    arn = create(
        sagemaker,
        "j1",
        DebugHookConfig=HOOK,
        DebugRuleConfigurations=RULES,
        CheckpointConfig={"S3Uri": "s3://bucket/checkpoints"},
    )
    jobs.wait("j1", PATIENCE)
    job = sagemaker.describe_training_job(TrainingJobName="j1")
    assert (
        arn == job["TrainingJobArn"] == "arn:aws:sagemaker:us-east-1:000000000000:training-job/j1"
    )
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    assert before <= job["CreationTime"] <= job["TrainingStartTime"] <= job["TrainingEndTime"]
    assert job["DebugHookConfig"] == HOOK
    assert job["DebugRuleConfigurations"] == RULES
    assert job["CheckpointConfig"] == {"S3Uri": "s3://bucket/checkpoints"}


def test_a_stop_is_accepted_at_once_and_shows_when_it_was_asked_for(
    sagemaker: Any, jobs: LocalJobs
) -> None:
    create(sagemaker, "j1", SLEEP)
    before = datetime.now(UTC)
    sagemaker.stop_training_job(TrainingJobName="j1")
    jobs.wait("j1", PATIENCE)
    job = sagemaker.describe_training_job(TrainingJobName="j1")
    assert job["TrainingJobStatus"] == "Stopped"
    (stopping,) = [
        change for change in job["SecondaryStatusTransitions"] if change["Status"] == "Stopping"
    ]
    assert before <= stopping["StartTime"] <= stopping["EndTime"]


@pytest.mark.parametrize(
    ("operation", "arguments", "code", "message"),
    [
        (
            "describe_training_job",
            {"TrainingJobName": "none"},
            "ValidationException",
            "Requested resource not found.",
        ),
        (
            "stop_training_job",
            {"TrainingJobName": "none"},
            "ValidationException",
            "Requested resource not found.",
        ),
        (
            "stop_training_job",
            {"TrainingJobName": "over"},
            "ValidationException",
            "The request was rejected because the training job is in status Completed.",
        ),
        (
            "list_training_jobs",
            {"CreationTimeAfter": datetime(2026, 1, 1, tzinfo=UTC)},
            "ValidationException",
            "ListTrainingJobs does not know CreationTimeAfter here",
        ),
        (
            "list_models",
            {},
            "UnknownOperationException",
            "this operation is not known here",
        ),
    ],
)
def test_errors_are_those_that_botocore_knows(
    sagemaker: Any, jobs: LocalJobs, operation: str, arguments: Any, code: str, message: str
) -> None:
    create(sagemaker, "over")
    jobs.wait("over", PATIENCE)
    with pytest.raises(ClientError) as error:
        getattr(sagemaker, operation)(**arguments)
    assert error.value.response["Error"] == {"Code": code, "Message": message}
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_name_is_used_once(sagemaker: Any) -> None:
    create(sagemaker, "j1")
    with pytest.raises(sagemaker.exceptions.ResourceInUse, match="already exists"):
        create(sagemaker, "j1")


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["b-one", "a-two", "b-three"]),
        ({"SortOrder": "Descending"}, ["b-three", "a-two", "b-one"]),
        ({"SortBy": "Name"}, ["a-two", "b-one", "b-three"]),
        ({"NameContains": "B-"}, ["b-one", "b-three"]),
        ({"StatusEquals": "InProgress"}, ["b-three"]),
        ({"StatusEquals": "Failed"}, []),
        ({"NameContains": "nothing"}, []),
    ],
)
def test_listing(sagemaker: Any, jobs: LocalJobs, filters: Any, names: list[str]) -> None:
    for name in ("b-one", "a-two"):
        create(sagemaker, name)
        jobs.wait(name, PATIENCE)
    create(sagemaker, "b-three", SLEEP)
    found = sagemaker.list_training_jobs(**filters)["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in found] == names
    pages = sagemaker.get_paginator("list_training_jobs").paginate(
        **filters, PaginationConfig={"PageSize": 1}
    )
    paged = [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]
    assert paged == names


def test_tags(sagemaker: Any) -> None:
    arn = create(sagemaker, "j1", Tags=[{"Key": "tocsin:run", "Value": "s3://bucket/j1"}])
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "team", "Value": "vision"}])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [
        {"Key": "tocsin:run", "Value": "s3://bucket/j1"},
        {"Key": "team", "Value": "vision"},
    ]


def post(endpoint: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=PATIENCE)
    try:
        connection.putrequest("POST", "/", skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b"{", {"Content-Length": "1"}, 400, "the body is not JSON"),
        (b"[]", {"Content-Length": "2"}, 400, "the body is not a JSON object"),
        (b"\xff{}", {"Content-Length": "3"}, 400, "the body is not JSON"),
        (b"[" * 100_000, {"Content-Length": "100000"}, 400, "the body is not JSON"),
        (b"{}", {"Content-Length": "2"}, 400, "a field is missing or wrong: KeyError"),
        (b"", {"Content-Length": str(BODY_LIMIT + 1)}, 413, "the body is larger"),
        (b"", {"Content-Length": "-1"}, 411, "Content-Length is missing"),
        (b"", {}, 411, "Content-Length is missing"),
        (b"{}", {"Content-Length": "2", "Host": "evil.example"}, 403, "this machine only"),
    ],
)
def test_what_is_not_a_request_is_refused(
    endpoint: str, body: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    headers = {**headers, "X-Amz-Target": "SageMaker.DescribeTrainingJob"}
    found, answer = post(endpoint, body, headers)
    assert found == status
    assert message in answer["message"]


def test_it_listens_on_loopback_only(endpoint: str) -> None:
    assert urlsplit(endpoint).hostname == "127.0.0.1"


def test_nobody_answers_after_the_end(jobs: LocalJobs) -> None:
    with loopback_port() as port:
        endpoint = url(port)
        with serve(port, jobs):
            assert post(endpoint, b"{}", {"Content-Length": "2"})[0] == 400
    with pytest.raises(ConnectionRefusedError):
        post(endpoint, b"{}", {"Content-Length": "2"})
