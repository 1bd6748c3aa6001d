"""Tries a deployed stage: a training that diverges is stopped, with a mail and a metric.

    python -m local.stage_trial

deploys stage ``e2e`` into the AWS account of the environment's credentials, tries it with a
SageMaker job, or without quota for one with a training on this machine, and removes it with its
buckets. The tests try a stage of the embedded AWS the same way.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
from tocsin.aws.settings import Names
from tocsin.events import ISSUES_FOUND
from tocsin.tensors import STOP, WATCH

from local.error import LocalError
from local.mailbox import Mailbox
from local.paths import ROOT
from local.trial_job import EXAMPLE, PREFIX, Container, sagemaker_container, train_in_job

STAGE = "e2e"
RULE = "ExplodingTensor"
PATIENCE = 300.0  # seconds; on AWS a metric takes a minute or two
_WATCH = {"rules": [{"rule": RULE, "severity": "critical", "actions": ["stop", "email"]}]}
_ARGUMENTS = (
    *("--learning-rate", "5", "--steps", "3000"),
    *("--seconds-per-step", "0.05", "--poll-interval", "0.5"),
)
_CDK = ("npx", "--yes", "aws-cdk@2.1148.1")

Clients = Callable[[str], Any]
Train = Callable[[str], None]
"""Trains as the job of this name until it is stopped. Raises LocalError if it is not."""


def try_stage(client: Clients, outputs: Mapping[str, str], stage: str, train: Train) -> str:
    """Trains until the stage stops it. Returns the run's URL.

    ``client`` makes the client of a service. Raises LocalError that says what did not come.
    """
    job = f"trial-{secrets.token_hex(4)}"
    with _mailbox(client, outputs["AlertTopicArn"], job) as mailbox:
        train(job)
        mailbox.wait_for(lambda mail: RULE in mail.subject and job in mail.subject, PATIENCE)
    _wait_for_metric(client("cloudwatch"), Names(stage).namespace, job)
    return f"s3://{outputs['CaptureBucketName']}/{PREFIX}/{job}"


def train_here(
    client: Clients, outputs: Mapping[str, str], environment: Mapping[str, str], job: str
) -> None:
    """A training outside SageMaker, on this machine, with ``environment``."""
    bucket = outputs["CaptureBucketName"]
    run = f"s3://{bucket}/{PREFIX}/{job}"
    with watch_file() as watch:
        done = subprocess.run(
            [sys.executable, EXAMPLE, "--out", run, "--watch", watch, *_ARGUMENTS],
            env={**environment},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise LocalError(f"the training of {run} failed: {done.stderr.strip()[-500:]}")
    if "stop requested after step" not in done.stdout:
        raise LocalError(f"{run} was not stopped: {done.stdout.strip().splitlines()[-1:]}")
    client("s3").head_object(Bucket=bucket, Key=f"{PREFIX}/{job}/{STOP}")


def train_there(
    client: Clients, outputs: Mapping[str, str], container: Container, job: str
) -> bool:
    """The same as a SageMaker job; False if the account has no quota for one."""
    return train_in_job(client, outputs, job, container, _ARGUMENTS)


@contextmanager
def watch_file() -> Iterator[Path]:
    """The watch file of a trial."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / WATCH
        file.write_text(json.dumps(_WATCH))
        yield file


@contextmanager
def deployed(stage: str) -> Iterator[Mapping[str, str]]:
    """The outputs of a stage in the account of the environment; it is removed after the block."""
    stack = Names(stage).stack
    context = ("-c", f"stage={stage}", "-c", "retainDays=1")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outputs.json"
        more = ("--require-approval", "never", "--outputs-file", str(file))
        subprocess.run([*_CDK, "deploy", *context, *more], cwd=ROOT, check=True)
        outputs: Mapping[str, str] = json.loads(file.read_text())[stack]
    try:
        yield outputs
    finally:
        subprocess.run([*_CDK, "destroy", "--force", *context], cwd=ROOT, check=True)
        for name in ("CaptureBucketName", "StateBucketName"):
            bucket = boto3.resource("s3").Bucket(outputs[name])
            bucket.objects.all().delete()
            bucket.delete()


def main() -> None:
    with deployed(STAGE) as outputs, watch_file() as watch:
        region = boto3.session.Session().region_name
        with sagemaker_container(region, watch) as container:

            def train(job: str) -> None:
                if train_there(boto3.client, outputs, container, job):
                    sys.stdout.write(f"{job} was a SageMaker job\n")
                    return
                sys.stdout.write("no quota for ml.m5.large: the training runs on this machine\n")
                train_here(boto3.client, outputs, os.environ, job)

            run = try_stage(boto3.client, outputs, STAGE, train)
    sys.stdout.write(f"{run} was stopped, with a mail and a metric; stage {STAGE} is removed\n")


@contextmanager
def _mailbox(client: Clients, topic: str, name: str) -> Iterator[Mailbox]:
    """A queue that gets every message of the topic, and is removed after the block."""
    sqs, sns = client("sqs"), client("sns")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = answer["Attributes"]["QueueArn"]
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    subscription = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True
    )["SubscriptionArn"]
    try:
        yield Mailbox.at(sqs, url)
    finally:
        sns.unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=url)


def _wait_for_metric(cloudwatch: Any, namespace: str, job: str) -> None:
    dimensions = [
        {"Name": "Rule", "Value": RULE},
        {"Name": "TrainingJobName", "Value": job},
    ]
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        now = datetime.now(UTC)
        points = cloudwatch.get_metric_statistics(
            Namespace=namespace,
            MetricName=ISSUES_FOUND,
            Dimensions=dimensions,
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(minutes=1),
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
        if any(point["Maximum"] == 1 for point in points):
            return
        time.sleep(1)
    raise LocalError(f"metric {ISSUES_FOUND} of {job} did not come into namespace {namespace}")


if __name__ == "__main__":
    main()
