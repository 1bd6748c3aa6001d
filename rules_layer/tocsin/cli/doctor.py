"""``tocsin doctor``: is the deployment sound? One line for each thing that can be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.text import Text

from tocsin.aws.clients import AWS_ERRORS, Client, real_client
from tocsin.aws.settings import Names
from tocsin.aws.sns import Topic
from tocsin.cli.display import styled
from tocsin.cli.errors import CommandError, reason
from tocsin.cli.output import Document
from tocsin.cli.stack import Deployment
from tocsin.events import EVALUATION_LAG

LAG = 60.0  # seconds; the alarm's limit
_MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("?", "yellow")}


@dataclass(frozen=True)
class Finding:
    """ok: None if AWS did not answer. text: the state, and the fix if it is wrong."""

    name: str
    ok: bool | None
    text: str


class MissingOutput(Exception):
    """An earlier version of the stack does not have the output of this name."""


@dataclass(frozen=True)
class Checkup:
    """The parts of the deployment that the checks need."""

    stack: str
    outputs: Mapping[str, str]
    client: Client

    def output(self, name: str) -> str:
        """Raises MissingOutput."""
        if name not in self.outputs:
            raise MissingOutput(name)
        return self.outputs[name]

    def region(self) -> str:
        return str(self.client("s3").meta.region_name)


def doctor_document(deployment: Deployment, client: Client = real_client) -> Document:
    """Return the JSON of ``tocsin doctor``. Raises CommandError if there is no such stack."""
    outputs = deployment.outputs
    if outputs is None:
        raise CommandError(
            f"there is no stack {deployment.stack_name} in this account and region: deploy it with "
            "`make deploy`, or name another with --stage or --stack"
        )
    checkup = Checkup(deployment.stack_name, outputs, client)
    found = [_checked(name, check, checkup) for name, check in _CHECKS.items()]
    return {
        "stack": checkup.stack,
        "sound": all(each.ok is True for each in found),
        "checks": [{"name": each.name, "ok": each.ok, "text": each.text} for each in found],
    }


def print_doctor(document: Document, console: Console) -> None:
    for check in document["checks"]:
        mark, style = _MARKS[check["ok"]]
        line = Text.assemble((mark, style), "  ", (f"{check['name']:14}", "bold"))
        console.print(line.append_text(styled(check["text"])))


def _checked(name: str, check: Callable[[Checkup], Finding], checkup: Checkup) -> Finding:
    try:
        return check(checkup)
    except MissingOutput as missing:
        text = (
            f"the stack has no output {missing}: it is older than this command line; deploy again"
        )
        return Finding(name, False, text)
    except AWS_ERRORS as error:
        return Finding(name, None, f"not known: {reason(error)}")


def _version(checkup: Checkup) -> Finding:
    deployed, own = checkup.outputs.get("TocsinVersion"), version("tocsin")
    if deployed == own:
        return Finding("version", True, f"{own}, same as this command line")
    older = deployed is None or _numbers(deployed) < _numbers(own)
    text = f"the stack has version {deployed or 'before 0.1'}, this command line {own}: "
    if older:
        return Finding("version", False, f"{text}deploy again with this version")
    return Finding("version", False, f"{text}install version {deployed} of the command line")


def _bucket(checkup: Checkup) -> Finding:
    bucket, s3 = checkup.output("CaptureBucketName"), checkup.client("s3")
    # S3's names for its two oldest regions.
    found = s3.get_bucket_location(Bucket=bucket)["LocationConstraint"]
    region = {None: "us-east-1", "EU": "eu-west-1"}.get(found, found)
    if region != checkup.region():
        text = f"{bucket} is in {region}, the stack in {checkup.region()}: deploy to {region}"
        return Finding("capture bucket", False, text)
    events = s3.get_bucket_notification_configuration(Bucket=bucket)
    queue = _queue_arn(checkup, "EvaluateQueueUrl")
    if "EventBridgeConfiguration" in events:
        return Finding("capture bucket", True, f"{bucket} notifies EventBridge")
    if any(each["QueueArn"] == queue for each in events.get("QueueConfigurations", ())):
        return Finding("capture bucket", True, f"{bucket} notifies the evaluate queue")
    text = f"{bucket} sends no EventBridge events: deploy again, or switch them on"
    return Finding("capture bucket", False, text)


def _key(checkup: Checkup) -> Finding:
    """Return whether ``evaluate`` may decrypt what the bucket's own key has encrypted."""
    bucket = checkup.output("CaptureBucketName")
    answer = checkup.client("s3").get_bucket_encryption(Bucket=bucket)
    rule = answer["ServerSideEncryptionConfiguration"]["Rules"][0]
    key = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    if key is None:
        return Finding("key", True, "S3's own keys encrypt the runs")
    described = checkup.client("kms").describe_key(KeyId=key)["KeyMetadata"]
    if described["KeyState"] != "Enabled":
        text = f"{described['Arn']} is {described['KeyState']}: no run can be read before it is on"
        return Finding("key", False, text)
    mapping = _mapping(checkup, "EvaluateQueueUrl")
    function = checkup.client("lambda").get_function_configuration(
        FunctionName=mapping["FunctionArn"]
    )
    simulated = checkup.client("iam").simulate_principal_policy(
        PolicySourceArn=function["Role"],
        ActionNames=["kms:Decrypt"],
        ResourceArns=[described["Arn"]],
    )
    if simulated["EvaluationResults"][0]["EvalDecision"] == "allowed":
        return Finding("key", True, f"evaluate may use {described['Arn']}")
    text = f"evaluate may not use it: deploy with -c captureKeyArn={described['Arn']}"
    return Finding("key", False, text)


def _subscriptions(checkup: Checkup) -> Finding:
    sns = checkup.client("sns")
    waiting = sorted(
        {
            endpoint
            for output in ("AlertTopicArn", "AlarmTopicArn")
            for endpoint in Topic(sns, checkup.output(output)).unconfirmed()
        }
    )
    if not waiting:
        return Finding("subscriptions", True, "all are confirmed")
    text = f"{', '.join(waiting)}: follow the link in the mail of AWS Notifications"
    return Finding("subscriptions", False, text)


def _sms(checkup: Checkup) -> Finding:
    sns = checkup.client("sns")
    if not sns.get_sms_sandbox_account_status()["IsInSandbox"]:
        return Finding("SMS", True, "the account sends to any number")
    topic = checkup.output("AlertTopicArn")
    pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    phones = [
        each["Endpoint"]
        for page in pages
        for each in page["Subscriptions"]
        if each["Protocol"] == "sms"
    ]
    if not phones:
        return Finding("SMS", True, "nobody gets any (the account is in the SMS sandbox)")
    text = (
        "the account is in the SMS sandbox, which sends to verified numbers only: verify "
        f"{', '.join(phones)}, or ask AWS to move the account out"
    )
    return Finding("SMS", False, text)


def _concurrency(checkup: Checkup) -> Finding:
    limits = checkup.client("lambda").get_account_settings()["AccountLimit"]
    free = limits["UnreservedConcurrentExecutions"]
    wanted = 1 + sum(  # patrol
        _mapping(checkup, output).get("ScalingConfig", {}).get("MaximumConcurrency", 0)
        for output in ("EvaluateQueueUrl", "ActQueueUrl", "ReportQueueUrl")
    )
    text = f"the functions may run {wanted} invocations at a time; the account allows {free}"
    if wanted <= free:
        return Finding("concurrency", True, text)
    fix = "ask AWS for more (Service Quotas, Lambda), or deploy with a smaller -c concurrency"
    return Finding("concurrency", False, f"{text}: {fix}")


def _lag(checkup: Checkup) -> Finding:
    stage = checkup.output("EventBusName").removeprefix("tocsin").removeprefix("-")
    now = datetime.now(UTC)
    points = checkup.client("cloudwatch").get_metric_statistics(
        Namespace=Names(stage).namespace,
        MetricName=EVALUATION_LAG,
        StartTime=now - timedelta(hours=1),
        EndTime=now,
        Period=3600,
        ExtendedStatistics=["p95"],
    )["Datapoints"]
    if not points:
        return Finding("lag", True, "nothing was evaluated in the last hour")
    seconds = max(point["ExtendedStatistics"]["p95"] for point in points) / 1000
    text = f"p95 of the last hour: {seconds:.1f} s from index file to verdict"
    if seconds < LAG:
        return Finding("lag", True, text)
    return Finding("lag", False, f"{text}: see docs/operations.md#lag")


def _dead_letters(checkup: Checkup) -> Finding:
    letters = {
        name: _waiting(checkup, f"{name.capitalize()}DeadLetterQueueUrl")
        for name in ("evaluate", "act", "report")
    }
    if not any(letters.values()):
        return Finding("dead letters", True, "none")
    text = ", ".join(f"{count} of {name}" for name, count in letters.items() if count)
    return Finding("dead letters", False, f"{text}: see docs/operations.md#dead-letters")


def _queue(checkup: Checkup, output: str, *names: str) -> Mapping[str, str]:
    answer: Mapping[str, Any] = checkup.client("sqs").get_queue_attributes(
        QueueUrl=checkup.output(output), AttributeNames=list(names)
    )
    attributes: Mapping[str, str] = answer["Attributes"]
    return attributes


def _queue_arn(checkup: Checkup, output: str) -> str:
    return _queue(checkup, output, "QueueArn")["QueueArn"]


def _waiting(checkup: Checkup, output: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(_queue(checkup, output, name)[name])


def _mapping(checkup: Checkup, output: str) -> Mapping[str, Any]:
    """The function that reads a queue, and how many at a time."""
    arn = _queue_arn(checkup, output)
    answer = checkup.client("lambda").list_event_source_mappings(EventSourceArn=arn)
    found: list[Mapping[str, Any]] = answer["EventSourceMappings"]
    return found[0] if found else {}


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(".") if part.isdigit()]


_CHECKS: Mapping[str, Callable[[Checkup], Finding]] = {
    "version": _version,
    "capture bucket": _bucket,
    "key": _key,
    "subscriptions": _subscriptions,
    "SMS": _sms,
    "concurrency": _concurrency,
    "lag": _lag,
    "dead letters": _dead_letters,
}
