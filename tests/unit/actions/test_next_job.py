from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tocsin.actions import Relaunch
from tocsin.actions.next_job import changes, fault, next_job

JOBS = "arn:aws:sagemaker:us-east-1:111122223333:training-job"
RUN = "s3://captures/jobs/digits/debug-output"
PLAN = Relaunch(
    job=f"{JOBS}/digits",
    run=RUN,
    rule="ExplodingTensor",
    dedup_id="d1",
    checkpoint="/opt/ml/checkpoints/step-59.npz",
    checkpoint_step=59,
    attempts=2,
    hyperparameters={"lr": "x0.3"},
)
JOB: dict[str, Any] = {
    "TrainingJobName": "digits",
    "TrainingJobStatus": "Stopped",
    "RoleArn": "arn:aws:iam::111122223333:role/training",
    "AlgorithmSpecification": {
        "TrainingImage": "image",
        "ContainerEntrypoint": ["train", "--out", RUN, f"{RUN}x"],
    },
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1},
    "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits"},
    "HyperParameters": {"lr": "0.1", "optimizer": "adam", "seed": "7"},
    "Environment": {"RUN": f"{RUN}/"},
    "FailureReason": "not part of a request",
}


def test_the_next_job_is_the_old_one_with_another_rate_and_a_checkpoint() -> None:
    tags = {"team": "vision", "aws:made": "x", "tocsin:run": RUN}
    request = next_job(JOB, tags, PLAN, "Tocsin")
    new = "s3://captures/jobs/digits-r1/debug-output"
    assert request == {
        "TrainingJobName": "digits-r1",
        "RoleArn": JOB["RoleArn"],
        "AlgorithmSpecification": {
            "TrainingImage": "image",
            "ContainerEntrypoint": ["train", "--out", new, f"{RUN}x"],
        },
        "ResourceConfig": JOB["ResourceConfig"],
        "CheckpointConfig": JOB["CheckpointConfig"],
        "HyperParameters": {"lr": "0.03", "optimizer": "adam", "seed": "7"},
        "Environment": {
            "RUN": new,
            "TOCSIN_CHECKPOINT": "/opt/ml/checkpoints/step-59.npz",
            "TOCSIN_CHECKPOINT_STEP": "59",
        },
        "Tags": [
            {"Key": "team", "Value": "vision"},
            {"Key": "tocsin:run", "Value": new},
            {"Key": "tocsin:relaunch", "Value": "Tocsin"},
            {"Key": "tocsin:relaunched-from", "Value": "digits"},
        ],
    }
    assert changes(JOB, PLAN) == "lr 0.1 → 0.03"


@pytest.mark.parametrize(
    ("job", "run", "name", "next_run"),
    [
        ("digits", "s3://b/digits", "digits-r1", "s3://b/digits-r1"),
        (
            "digits-r1",
            "s3://b/digits-r1/debug-output",
            "digits-r2",
            "s3://b/digits-r2/debug-output",
        ),
        ("resnet-r50", "s3://b/resnet-r50/", "resnet-r50-r1", "s3://b/resnet-r50-r1"),
        ("l" * 63, "s3://b/" + "l" * 63, "l" * 60 + "-r1", "s3://b/" + "l" * 60 + "-r1"),
        ("l" * 59 + "-abc", "s3://b/x", "l" * 59 + "-r1", "s3://b/" + "l" * 59 + "-r1"),
        ("b", "s3://b-b/b/b", "b-r1", "s3://b-b/b/b-r1"),
    ],
)
def test_names(job: str, run: str, name: str, next_run: str) -> None:
    plan = replace(PLAN, job=f"{JOBS}/{job}", run=run)
    assert (plan.name, plan.next_run) == (name, next_run)


def test_jobs_whose_next_names_are_alike_have_executions_of_their_own() -> None:
    one, two = (replace(PLAN, job=f"{JOBS}/{'l' * 62}{end}") for end in "ab")
    assert one.name == two.name
    assert one.execution != two.execution
    assert len(one.execution) <= 80


@pytest.mark.parametrize("job", ["digits", "digits-r1"])
def test_attempts_that_are_left(job: str) -> None:
    assert fault(JOB, replace(PLAN, job=f"{JOBS}/{job}")) is None


@pytest.mark.parametrize(
    ("job", "plan", "why"),
    [
        ({}, {"job": f"{JOBS}/digits-r2"}, "started again 2 times already"),
        ({}, {"job": f"{JOBS}/digits-r9", "attempts": 9}, "started again 9 times already"),
        ({"TuningJobArn": "arn:tuning"}, {}, "part of arn:tuning"),
        ({"AutoMLJobArn": "arn:automl"}, {}, "part of arn:automl"),
        ({"CheckpointConfig": {}}, {}, "outside of what outlives the job"),
        ({}, {"checkpoint": "checkpoints/step-59.npz"}, "outside of what outlives the job"),
        ({}, {"checkpoint": "/opt/ml/checkpoints"}, "outside of what outlives the job"),
        ({}, {"checkpoint": "/opt/ml/checkpoints-2/x"}, "outside of what outlives the job"),
        ({}, {"checkpoint": "/opt/ml/checkpoints/../code/x"}, "outside of what outlives"),
        ({}, {"checkpoint": "/opt/ml/checkpoints/a\nb"}, "outside of what outlives the job"),
        ({}, {"checkpoint": "s3://elsewhere/step-59.npz"}, "outside of what outlives the job"),
        ({}, {"checkpoint": "s3://checkpoints/digits-2/x"}, "outside of what outlives the job"),
        ({}, {"hyperparameters": {"rate": "x0.3"}}, "no hyper-parameter 'rate'"),
        ({}, {"hyperparameters": {"optimizer": "x0.3"}}, "no usable number"),
        ({}, {"hyperparameters": {"optimizer": "1"}}, "no usable number"),
    ],
)
def test_what_is_not_started_again(job: dict[str, Any], plan: dict[str, Any], why: str) -> None:
    found = fault({**JOB, **job}, replace(PLAN, **plan))
    assert found is not None
    assert why in found


@pytest.mark.parametrize(
    ("config", "checkpoint"),
    [
        ({"S3Uri": "s3://checkpoints/digits"}, "s3://checkpoints/digits/step-59.npz"),
        ({"S3Uri": "s3://checkpoints/digits/"}, "/opt/ml/checkpoints/epoch/2"),
        ({"S3Uri": "s3://c/d", "LocalPath": "/opt/ml/saved"}, "/opt/ml/saved/x"),
    ],
)
def test_checkpoints_that_a_new_job_finds(config: dict[str, str], checkpoint: str) -> None:
    assert fault({**JOB, "CheckpointConfig": config}, replace(PLAN, checkpoint=checkpoint)) is None
