from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from local.job import JobTransition, LocalJob, describe, state_change

REQUEST = {
    "TrainingJobName": "j1",
    "Tags": [{"Key": "team", "Value": "vision"}],
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out/"},
    "DebugHookConfig": {"S3OutputPath": "s3://bucket/runs", "HookParameters": {"save": "10"}},
    "CheckpointConfig": {"S3Uri": "s3://bucket/checkpoints"},
    "DebugRuleConfigurations": [{"RuleConfigurationName": "V", "RuleParameters": {"n": "1"}}],
}
STARTING, TRAINING = JobTransition("Starting", 100.0, "a"), JobTransition("Training", 101.5, "b")
JOB = LocalJob(REQUEST, Path("log"), changes=(STARTING, TRAINING), tags={"team": "vision"})
STOPPED = replace(
    JOB,
    status="Stopped",
    changes=(
        STARTING,
        TRAINING,
        JobTransition("Stopping", 103.0, "c"),
        JobTransition("Stopped", 104.0, "d"),
    ),
)


@pytest.mark.parametrize("name", ["DebugHookConfig", "CheckpointConfig", "DebugRuleConfigurations"])
def test_what_the_request_said_comes_back(name: str) -> None:
    assert describe(JOB)[name] == REQUEST[name]


def test_tags_are_not_described() -> None:
    assert "Tags" not in describe(JOB)


@pytest.mark.parametrize(
    ("job", "status", "secondary", "ended"),
    [
        (replace(JOB, changes=(STARTING,)), "InProgress", "Starting", None),
        (JOB, "InProgress", "Training", None),
        (STOPPED, "Stopped", "Stopped", 104.0),
    ],
)
def test_statuses_and_times(
    job: LocalJob, status: str, secondary: str, ended: float | None
) -> None:
    answer = describe(job)
    assert (answer["TrainingJobStatus"], answer["SecondaryStatus"]) == (status, secondary)
    assert answer["CreationTime"] == 100.0
    assert answer["LastModifiedTime"] == job.changes[-1].time
    assert answer.get("TrainingStartTime") == job.at("Training")
    assert answer.get("TrainingEndTime") == ended
    assert answer["ModelArtifacts"]["S3ModelArtifacts"] == "s3://bucket/out/j1/output/model.tar.gz"


def test_each_transition_ends_when_the_next_begins() -> None:
    spans = [
        (change["Status"], change["StartTime"], change.get("EndTime"))
        for change in describe(STOPPED)["SecondaryStatusTransitions"]
    ]
    assert spans == [
        ("Starting", 100.0, 101.5),
        ("Training", 101.5, 103.0),
        ("Stopping", 103.0, 104.0),
        ("Stopped", 104.0, 104.0),
    ]
    assert "EndTime" not in describe(JOB)["SecondaryStatusTransitions"][-1]


def test_the_time_at_which_a_stop_was_asked_for() -> None:
    assert STOPPED.at("Stopping") == 103.0
    assert JOB.at("Stopping") is None


def test_the_event_has_times_in_milliseconds_as_text_and_the_tags() -> None:
    event = state_change(STOPPED)
    detail = json.loads(event["Detail"])
    assert event["Source"] == "aws.sagemaker"
    assert event["DetailType"] == "SageMaker Training Job State Change"
    assert event["Resources"] == [detail["TrainingJobArn"]]
    assert detail["TrainingStartTime"] == "101500"
    assert detail["SecondaryStatusTransitions"][2]["StartTime"] == "103000"
    assert detail["Tags"] == [{"Key": "team", "Value": "vision"}]
    assert detail["TrainingJobStatus"] == "Stopped"
