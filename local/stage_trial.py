"""Tries a deployed stage: a training that diverges is stopped, with a mail and a metric.

    python -m local.stage_trial

deploys stage ``e2e`` into the AWS account of the environment's credentials, tries it, and removes
it with its buckets. The tests try a stage of the embedded AWS the same way.
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
from tocsin.tensors import STOP

from local.error import LocalError
from local.mailbox import Mailbox
from local.paths import ROOT

STAGE = "e2e"
RULE = "ExplodingTensor"
PATIENCE = 300.0  # seconds; on AWS a metric takes a minute or two
_WATCH = {"rules": [{"rule": RULE, "severity": "critical", "actions": ["stop", "email"]}]}
_CDK = ("npx", "--yes", "aws-cdk@2.1148.1")

Clients = Callable[[str], Any]


def try_stage(
    client: Clients, outputs: Mapping[str, str], stage: str, environment: Mapping[str, str]
) -> str:
    """Trains until the stage stops it. Returns the run's URL.

    ``client`` makes the client of a service; ``environment`` is the training's. Raises LocalError
    that says what did not come.
    """
    job = f"trial-{secrets.token_hex(4)}"
    run = f"s3://{outputs['CaptureBucketName']}/trials/{job}"
    with _mailbox(client, outputs["AlertTopicArn"], job) as mailbox:
        log = _train(run, environment)
        if "stop requested after step" not in log:
            raise LocalError(f"{run} was not stopped: {log.strip().splitlines()[-1:]}")
        client("s3").head_object(Bucket=outputs["CaptureBucketName"], Key=f"trials/{job}/{STOP}")
        mailbox.wait_for(lambda mail: RULE in mail.subject and job in mail.subject, PATIENCE)
    _wait_for_metric(client("cloudwatch"), Names(stage).namespace, job)
    return run


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
    with deployed(STAGE) as outputs:
        run = try_stage(boto3.client, outputs, STAGE, os.environ)
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


def _train(run: str, environment: Mapping[str, str]) -> str:
    """Runs the example with a learning rate that is far too large; what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Path(folder) / "watch.json"
        watch.write_text(json.dumps(_WATCH))
        example = ROOT / "examples" / "digits_numpy.py"
        slow = ("--steps", "3000", "--seconds-per-step", "0.05", "--poll-interval", "0.5")
        done = subprocess.run(
            [
                sys.executable,
                example,
                "--out",
                run,
                "--watch",
                watch,
                "--learning-rate",
                "5",
                *slow,
            ],
            env={**environment},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise LocalError(f"the training of {run} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


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
