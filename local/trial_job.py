"""A SageMaker training job for a trial of a stage: the example's training in a container."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from tocsin.model import TERMINAL_JOB_STATUSES

from local.error import LocalError
from local.paths import ROOT

EXAMPLE = ROOT / "examples" / "digits_numpy.py"
PREFIX = "trials"
PATIENCE = 1800.0  # seconds: a machine of SageMaker's takes minutes to start
_ROLE_PATIENCE = 120.0  # seconds until SageMaker may assume a new role
_CODE = "/opt/ml/input/data/code"
_IMAGE = (
    "763104351884.dkr.ecr.{region}.amazonaws.com/"
    "pytorch-training:2.5.1-cpu-py311-ubuntu22.04-sagemaker"
)
_NO_QUOTA = ("ResourceLimitExceeded",)

Clients = Callable[[str], Any]


@dataclass(frozen=True)
class Container:
    """The parts of a job. ``command`` is that of the example, without its arguments.

    code: the files of the job, uploaded for it; none where the container has them.
    """

    image: str
    command: Sequence[str]
    watch: str
    code: Sequence[Path] = ()


@contextmanager
def sagemaker_container(region: str, watch: Path) -> Iterator[Container]:
    """A container of AWS's for PyTorch, in which the wheel of this checkout is installed."""
    with tempfile.TemporaryDirectory() as folder:
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            folder,
            str(ROOT),
        ]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("tocsin-*.whl")
        install = f"pip install --quiet '{_CODE}/{wheel.name}[aws]'"
        run = f'{install} && exec python {_CODE}/{EXAMPLE.name} "$@"'
        yield Container(
            _IMAGE.format(region=region),
            ("bash", "-c", run, EXAMPLE.stem),
            f"{_CODE}/{watch.name}",
            (wheel, EXAMPLE, watch),
        )


def train_in_job(
    client: Clients,
    outputs: Mapping[str, str],
    job: str,
    container: Container,
    arguments: Sequence[str],
) -> bool:
    """Run the example as a SageMaker job until it has ended, which a stage must have stopped.

    False if the account has no quota for it. Raises LocalError if the job ends otherwise.
    """
    bucket = outputs["CaptureBucketName"]
    run = f"s3://{bucket}/{PREFIX}/{job}"
    for file in container.code:
        client("s3").upload_file(str(file), bucket, f"code/{job}/{file.name}")
    command = [*container.command, "--out", run, "--watch", container.watch, *arguments]
    with _role(client("iam"), job, bucket, outputs["TrainingWriterPolicyArn"]) as role:
        request = _request(job, run, role, command, container)
        if not _created(client("sagemaker"), request):
            return False
        described = _ended(client("sagemaker"), job)
    if described["TrainingJobStatus"] != "Stopped":
        why = described.get("FailureReason", "nobody stopped it")
        raise LocalError(f"job {job} is {described['TrainingJobStatus']}: {why}")
    return True


def _request(
    job: str, run: str, role: str, command: Sequence[str], container: Container
) -> dict[str, Any]:
    bucket = run.split("/")[2]
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/code/{job}/"}
    channel = {"ChannelName": "code", "DataSource": {"S3DataSource": source}}
    return {
        "TrainingJobName": job,
        "AlgorithmSpecification": {
            "TrainingImage": container.image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": list(command),
        },
        "RoleArn": role,
        **({"InputDataConfig": [channel]} if container.code else {}),
        "OutputDataConfig": {"S3OutputPath": f"s3://{bucket}/{PREFIX}/models"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 5,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 1200},
        "Tags": [{"Key": "tocsin:run", "Value": run}],
    }


def _created(sagemaker: Any, request: Mapping[str, Any]) -> bool:
    deadline = time.monotonic() + _ROLE_PATIENCE
    while True:
        try:
            sagemaker.create_training_job(**request)
            return True
        except ClientError as error:
            if error.response["Error"]["Code"] in _NO_QUOTA:
                return False
            is_new = "assume" in str(error) and time.monotonic() < deadline
            if not is_new:
                raise LocalError(f"SageMaker refuses the job: {error}") from error
        time.sleep(5)


def _ended(sagemaker: Any, job: str) -> Mapping[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        described: Mapping[str, Any] = sagemaker.describe_training_job(TrainingJobName=job)
        if described["TrainingJobStatus"] in TERMINAL_JOB_STATUSES:
            return described
        time.sleep(1)
    raise LocalError(f"job {job} has not ended within {PATIENCE:.0f} s")


@contextmanager
def _role(iam: Any, name: str, bucket: str, writer: str) -> Iterator[str]:
    """The ARN of a role for the job: it may write runs below ``trials/``; removed after."""
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    arn: str = iam.create_role(
        RoleName=name,
        AssumeRolePolicyDocument=_policy(trust),
        Tags=[{"Key": "tocsin-prefix", "Value": PREFIX}],
    )["Role"]["Arn"]
    partition = arn.split(":")[1]
    objects = f"arn:{partition}:s3:::{bucket}"
    try:
        iam.attach_role_policy(RoleName=name, PolicyArn=writer)
        iam.put_role_policy(
            RoleName=name,
            PolicyName="code",
            PolicyDocument=_policy(
                _allow(["s3:GetObject"], f"{objects}/code/*"),
                _allow(["s3:ListBucket"], objects),
                _allow(["logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"], "*"),
                _allow(["ecr:GetAuthorizationToken", "ecr:BatchGetImage"], "*"),
                _allow(["ecr:GetDownloadUrlForLayer", "ecr:BatchCheckLayerAvailability"], "*"),
            ),
        )
        yield arn
    finally:
        iam.detach_role_policy(RoleName=name, PolicyArn=writer)
        iam.delete_role_policy(RoleName=name, PolicyName="code")
        iam.delete_role(RoleName=name)


def _allow(actions: Sequence[str], resource: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
