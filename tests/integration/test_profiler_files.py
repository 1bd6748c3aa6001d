"""The bucket of a customer of Amazon's profiler: the agent's files bring looks, and alerts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tocsin.aws.sagemaker import SageMakerJobs
from tocsin.evaluation import (
    EvaluationReport,
    Hint,
    JobDescription,
    MemoryJobs,
    memory_ports,
    parse_message,
)
from tocsin.evaluation.reconciliation import reconcile
from tocsin.events import StatusChange
from tocsin.profile import open_run, system_samples, trace_events
from tocsin.tensors import S3Storage

from tests.profiler_files import MINUTE, lines, steps, system_key, timeline, timeline_key

RUN = "s3://capture/jobs/j1/profiler-output"
RULES = (
    {
        "RuleConfigurationName": "cpu",
        "RuleParameters": {"rule_to_invoke": "CPUBottleneck", "patience": "200"},
    },
)


@pytest.fixture
def s3(aws_in_process: None) -> Any:
    client = boto3.client("s3")
    client.create_bucket(Bucket="capture")
    return client


def put(s3: Any, key: str, text: str) -> list[Any]:
    """The hints of S3's notification of a file."""
    whole = f"jobs/j1/profiler-output/{key}"
    s3.put_object(Bucket="capture", Key=whole, Body=text.encode())
    record = {"s3": {"bucket": {"name": "capture"}, "object": {"key": whole}}}
    return parse_message(json.dumps({"Records": [record]}))


def test_each_file_of_the_agent_brings_a_look_and_the_jobs_own_rules_judge(s3: Any) -> None:
    job = JobDescription(outputs=("s3://capture/jobs",), profiler_rules=RULES)
    now = datetime.now(UTC).timestamp() + 10
    ports = replace(
        memory_ports(open_run(RUN, s3), lambda: now),
        storage=partial(open_run, client=s3),
        jobs=MemoryJobs({"j1": job}),
    )
    status: list[str] = []
    for at in range(3):
        text = lines(MINUTE + at, cores=[99.0, 3.0], gpus=[2.0])
        (hint,) = put(s3, system_key(MINUTE + at), text)
        assert hint == Hint(
            RUN, (f"index/{(MINUTE + at) // 1000:09d}/{MINUTE + at:012d}_algo-1.json",)
        )
        reconcile(hint, ports, EvaluationReport(), deadline=math.inf)
        record = ports.checkpoints.load(RUN).checkpoint.rules["cpu"]
        status.append(record.status.value)
    assert status == ["InProgress", "IssuesFound", "IssuesFound"]
    changes = [each for each in ports.publisher.published if isinstance(each, StatusChange)]
    assert [(each.training_job_name, each.rule) for each in changes] == [("j1", "CPUBottleneck")]
    (hint,) = put(s3, "system/training_job_end.ts", "")
    reconcile(hint, ports, EvaluationReport(), deadline=math.inf)
    assert ports.checkpoints.load(RUN).checkpoint.ended == "marker"


def test_samples_and_events_are_read_from_s3(s3: Any) -> None:
    put(s3, system_key(), lines(ticks=3))
    put(s3, timeline_key(60 * MINUTE + 3), timeline(steps([1.0], 0.5)))
    storage = S3Storage(RUN, s3)
    assert len(list(system_samples(storage))) == 3 * 12
    assert [event.duration for event in trace_events(storage)] == [500_000]


def test_a_jobs_profiler_rules_and_output_are_its_own(s3: Any) -> None:
    sagemaker = boto3.client("sagemaker")
    answer = {
        "TrainingJobName": "j1",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/j1",
        "ModelArtifacts": {"S3ModelArtifacts": ""},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {},
        "CreationTime": datetime.now(UTC),
        "ProfilerRuleConfigurations": [{**RULES[0], "RuleEvaluatorImage": "image"}],
        "ProfilerConfig": {"S3OutputPath": "s3://capture/jobs"},
    }
    with Stubber(sagemaker) as stub:
        stub.add_response("describe_training_job", answer)
        job = SageMakerJobs(sagemaker).describe("j1")
    assert job is not None
    assert [rule["RuleConfigurationName"] for rule in job.profiler_rules] == ["cpu"]
    assert job.rules == ()
    assert job.outputs == ("s3://capture/jobs",)
