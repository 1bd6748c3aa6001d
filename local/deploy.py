"""Deploys a cloud assembly to the emulator with CloudFormation, as the CDK's CLI does on AWS."""

from __future__ import annotations

import json
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import ClientError

from local.emulator import ACCOUNT, REGION
from local.error import LocalError
from local.synth import Assembly, Asset

BOOTSTRAP_VERSION = "30"
DEADLINE = 300.0  # seconds until the stack must be there

Clients = Callable[[str], Any]


def deploy(assembly: Assembly, client: Clients) -> dict[str, str]:
    """Upload the assets, create the stack and wait for it. Returns its outputs.

    ``client`` returns a boto3 client for a service.
    """
    _upload(assembly.assets, client("s3"))
    for parameter in _bootstrap_parameters(assembly.template):
        client("ssm").put_parameter(
            Name=parameter, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
        )
    cloudformation = client("cloudformation")
    try:
        cloudformation.create_stack(
            StackName=assembly.stack,
            TemplateURL=_template_url(assembly, client("s3")),
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    except ClientError as error:
        reason = error.response["Error"]["Message"]
        raise LocalError(f"stack {assembly.stack} is refused: {reason}") from error
    stack = _finished(cloudformation, assembly.stack)
    if stack["StackStatus"] != "CREATE_COMPLETE":
        raise LocalError(f"stack {assembly.stack}: {_reasons(cloudformation, stack)}")
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def _template_url(assembly: Assembly, s3: Any) -> str:
    """Upload the template: CloudFormation takes no large one in a request."""
    bucket, key = "templates", f"{assembly.stack}.json"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(assembly.template))
    return f"https://s3.amazonaws.com/{bucket}/{key}"


def _bootstrap_parameters(template: Mapping[str, Any]) -> list[str]:
    """The SSM parameters that the template reads. On AWS `cdk bootstrap` makes them."""
    return [
        parameter["Default"]
        for parameter in template.get("Parameters", {}).values()
        if parameter["Type"] == "AWS::SSM::Parameter::Value<String>"
    ]


def _upload(assets: Iterable[Asset], s3: Any) -> None:
    buckets = set()
    for asset in assets:
        bucket, key = _resolved(asset.bucket), _resolved(asset.key)
        if bucket not in buckets:
            s3.create_bucket(Bucket=bucket)
            buckets.add(bucket)
        if asset.packaging != "zip":
            s3.put_object(Bucket=bucket, Key=key, Body=asset.path.read_bytes())
            continue
        with tempfile.TemporaryFile() as file:
            _zip(asset.path, file)
            file.seek(0)
            s3.put_object(Bucket=bucket, Key=key, Body=file)


def _resolved(text: str) -> str:
    known = {"AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::Partition": "aws"}
    for name, value in known.items():
        text = text.replace(f"${{{name}}}", value)
    return text


def _zip(folder: Path, file: IO[bytes]) -> None:
    """Zips a folder without compression: every cold start unpacks it on this machine."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, strict_timestamps=False) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))


def _finished(cloudformation: Any, name: str) -> Mapping[str, Any]:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        stack: Mapping[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            return stack
        time.sleep(0.05)
    raise LocalError(f"stack {name} is still {stack['StackStatus']} after {DEADLINE:.0f} s")


def _reasons(cloudformation: Any, stack: Mapping[str, Any]) -> str:
    pages = cloudformation.get_paginator("describe_stack_events").paginate(
        StackName=stack["StackName"]
    )
    events = [event for page in pages for event in page["StackEvents"]]
    failed = [
        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
    ]
    return "; ".join(failed) or stack.get("StackStatusReason") or stack["StackStatus"]
