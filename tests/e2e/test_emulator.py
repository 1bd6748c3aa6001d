from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from local import LocalAws, LocalError, background
from local.demo import OPTIONS
from local.deploy import deploy
from local.emulator import ACCOUNT, REGION, Emulator, emulator
from local.environment import embedded
from local.interpreter import interpreter
from local.port import loopback_port, url
from local.reaper import Reaper
from local.stack import make_client
from local.synth import Assembly, Asset
from tests.waiting import PATIENCE, becomes

pytestmark = pytest.mark.e2e

BUCKET = "cdk-assets-${AWS::AccountId}-${AWS::Region}"
FUNCTION = """
import json, os, boto3
import in_layer
def handler(event, context):
    boto3.client("s3").put_object(
        Bucket=os.environ["BUCKET"], Key="found",
        Body=json.dumps([in_layer.WHAT, os.environ["AWS_ENDPOINT_URL_SAGEMAKER"], event]))
"""

OWNER = """
import sys, time
from local.emulator import emulator
from local.interpreter import interpreter
from local.port import loopback_port
from local.reaper import Reaper
with Reaper() as reaper, loopback_port() as port:
    with emulator(reaper, interpreter(), port) as running:
        print(running.endpoint, running.pid, running.log.parent, flush=True)
        time.sleep(3600)
"""


def group(leader: int) -> list[int]:
    """The processes of a group that are not dead yet."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp, *_ = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def listening(pids: list[int]) -> set[tuple[str, int]]:
    """The addresses that processes listen on, IPv4 as ("127.0.0.1", port) and IPv6 as ("::", …)."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = descriptor.readlink().name
                sockets.add(target.removeprefix("socket:[").removesuffix("]"))
            except FileNotFoundError:
                continue
    found = set()
    for table, wildcard in (("tcp", None), ("tcp6", "::")):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and inode in sockets:
                host, _, port = local.partition(":")
                address = wildcard or socket.inet_ntoa(bytes.fromhex(host)[::-1])
                found.add((address, int(port, 16)))
    return found


def answers(endpoint: str) -> bool:
    address = urlsplit(endpoint)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with Reaper() as reaper, loopback_port() as port:
        environment = embedded(url(port), "http://127.0.0.1:9")
        with emulator(reaper, interpreter(), port, environment) as running:
            yield running


@pytest.fixture(scope="module")
def client(running: Emulator) -> Callable[[str], Any]:
    environment = embedded(running.endpoint, "http://127.0.0.1:9")
    return lambda service: make_client(environment, service)


def test_it_listens_on_one_loopback_port(running: Emulator) -> None:
    port = urlsplit(running.endpoint).port
    assert listening(group(running.pid)) == {("127.0.0.1", port)}


@pytest.mark.parametrize("death", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_it(death: signal.Signals | None) -> None:
    code = OWNER if death else OWNER.replace("time.sleep(3600)", "sys.stdin.read()")
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    endpoint, pid, folder = owner.stdout.readline().split()
    assert answers(endpoint)
    assert int(pid) in group(int(pid))

    if death:
        owner.send_signal(death)
    owner.communicate()

    assert becomes(lambda: not group(int(pid)))
    assert becomes(lambda: not Path(folder).exists())
    assert becomes(lambda: not answers(endpoint))


def test_a_start_that_fails_says_why_and_leaves_nothing() -> None:
    with Reaper() as reaper, loopback_port() as port:
        endpoint = url(port)
        without_it = emulator(reaper, Path(sys.executable), port)
        with pytest.raises(LocalError, match=r"the emulator ended: .*No module named"):
            without_it.__enter__()
    assert not answers(endpoint)


def function_stack(tmp_path: Path) -> Assembly:
    (tmp_path / "function").mkdir()
    (tmp_path / "function" / "index.py").write_text(FUNCTION)
    (tmp_path / "layer" / "python").mkdir(parents=True)
    (tmp_path / "layer" / "python" / "in_layer.py").write_text("WHAT = 'from the layer'")
    (tmp_path / "template").write_text("{}")

    role = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}}
    resources = {
        "Role": ("AWS::IAM::Role", role),
        "Bucket": ("AWS::S3::Bucket", {}),
        "Layer": (
            "AWS::Lambda::LayerVersion",
            {"Content": {"S3Bucket": {"Fn::Sub": BUCKET}, "S3Key": "layer.zip"}},
        ),
        "Function": (
            "AWS::Lambda::Function",
            {
                "Code": {"S3Bucket": {"Fn::Sub": BUCKET}, "S3Key": "function.zip"},
                "Handler": "index.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Layers": [{"Ref": "Layer"}],
                "Environment": {"Variables": {"BUCKET": {"Ref": "Bucket"}}},
            },
        ),
        "Rule": (
            "AWS::Events::Rule",
            {
                "EventPattern": {"source": ["aws.sagemaker"]},
                "Targets": [{"Arn": {"Fn::GetAtt": ["Function", "Arn"]}, "Id": "T"}],
            },
        ),
    }
    return Assembly(
        "Functions",
        {
            "Parameters": {
                "BootstrapVersion": {
                    "Type": "AWS::SSM::Parameter::Value<String>",
                    "Default": "/cdk-bootstrap/hnb659fds/version",
                }
            },
            "Resources": {k: {"Type": t, "Properties": p} for k, (t, p) in resources.items()},
            "Outputs": {"Bucket": {"Value": {"Ref": "Bucket"}}},
        },
        (
            Asset(tmp_path / "function", "zip", BUCKET, "function.zip"),
            Asset(tmp_path / "layer", "zip", BUCKET, "layer.zip"),
            Asset(tmp_path / "template", "file", BUCKET, "template.json"),
        ),
    )


def test_a_stack_with_assets_is_deployed_and_hears_sagemakers_events(
    client: Callable[[str], Any], tmp_path: Path
) -> None:
    outputs = deploy(function_stack(tmp_path), client)
    uploaded = client("s3").get_object(Bucket=f"cdk-assets-{ACCOUNT}-{REGION}", Key="template.json")
    assert uploaded["Body"].read() == b"{}"

    entry = {"Source": "aws.sagemaker", "DetailType": "Change", "Detail": '{"a": 1}'}
    assert client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0
    s3 = client("s3")
    assert becomes(lambda: s3.list_objects_v2(Bucket=outputs["Bucket"])["KeyCount"] == 1)
    what, sagemaker, event = json.load(s3.get_object(Bucket=outputs["Bucket"], Key="found")["Body"])
    assert what == "from the layer"
    assert sagemaker == "http://127.0.0.1:9"
    assert event["detail"] == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        ("AWS::SQS::Queue", {"DelaySeconds": 99999}, "stack Broken: Odd: Invalid value"),
        ("AWS::Nothing::Here", {}, "stack Broken is refused: .*AWS::Nothing::Here"),
    ],
)
def test_a_stack_that_fails_says_why(
    client: Callable[[str], Any], kind: str, properties: dict[str, Any], message: str
) -> None:
    template = {"Resources": {"Odd": {"Type": kind, "Properties": properties}}}
    with pytest.raises(LocalError, match=message):
        deploy(Assembly("Broken", template, ()), client)


def test_the_deployed_stack_as_a_whole(aws: LocalAws) -> None:
    described = aws.describe()
    assert described.keys() == {
        *("endpoint", "sagemaker_endpoint", "bucket", "state_bucket", "table"),
        *("evaluate_queue_url", "evaluate_dlq_url", "act_dlq_url", "bus", "topic_arn"),
        *("mailbox_queue_url", "environment"),
    }
    assert all(described.values())
    aws.client("s3").head_bucket(Bucket=described["bucket"])
    aws.client("sns").publish(TopicArn=described["topic_arn"], Subject="Hello", Message="Body")
    assert aws.mailbox.wait_for(lambda message: message.subject == "Hello", PATIENCE).body == "Body"
    aws.client("sns").publish(PhoneNumber="+15551230000", Message="Text")
    assert ("+15551230000", "Text") in [(sms.phone, sms.body) for sms in aws.sms()]


def test_a_training_job_reaches_the_embedded_aws(aws: LocalAws) -> None:
    code = "import boto3; boto3.client('s3').put_object(Bucket=BUCKET, Key='trained')"
    aws.client("sagemaker").create_training_job(
        TrainingJobName="reaches-aws",
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/training",
        AlgorithmSpecification={
            "TrainingImage": "none",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": [sys.executable, "-c"],
            "ContainerArguments": [code.replace("BUCKET", repr(aws.describe()["bucket"]))],
        },
        OutputDataConfig={"S3OutputPath": "s3://none"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )
    job = aws.jobs.wait("reaches-aws", PATIENCE)
    assert job.status == "Completed", job.log.read_text()
    aws.client("s3").head_object(Bucket=aws.describe()["bucket"], Key="trained")


def test_up_and_down_in_the_background(tmp_path: Path) -> None:
    try:
        first = background.up(OPTIONS, tmp_path)  # the demo's, whose template is kept
        assert answers(first["endpoint"])
        assert answers(first["sagemaker_endpoint"])
        assert background.up(OPTIONS, tmp_path) == first
        make_client(first["environment"], "s3").head_bucket(Bucket=first["bucket"])
    finally:
        assert background.down(tmp_path) is True
    assert not answers(first["endpoint"])
    assert not answers(first["sagemaker_endpoint"])
    assert background.down(tmp_path) is False


def test_options_that_are_wrong_are_told(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"does not start: .*option retainDays is 8"):
        background.up({"retainDays": 8}, tmp_path)
    assert background.down(tmp_path) is False
