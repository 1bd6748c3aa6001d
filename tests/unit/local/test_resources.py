"""What is done with an embedded AWS that is up, with AWS in this process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local import background, resources
from local.background import log_lines
from local.error import LocalError
from local.mailbox import Mailbox


def test_nothing_is_up(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="run `tocsin local up`"):
        background.resources(tmp_path)
    assert log_lines(tmp_path) == []


def test_mails_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        sqs = boto3.client("sqs", region_name="us-east-1")
        sns = boto3.client("sns", region_name="us-east-1")
        topic = sns.create_topic(Name="alerts")["TopicArn"]
        url = Mailbox(sqs, sns, topic).queue_url
        monkeypatch.setattr(
            resources, "resources", lambda: {"environment": {}, "mailbox_queue_url": url}
        )
        monkeypatch.setattr(resources, "make_client", lambda environment, service: sqs)
        for kind in ("email", "sms"):
            attribute = {"action": {"DataType": "String", "StringValue": kind}}
            sns.publish(TopicArn=topic, Subject="s", Message=kind, MessageAttributes=attribute)
        assert resources.mails() == [{"subject": "s", "body": "email"}]
        assert resources.mails() == []


def test_a_script_becomes_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[dict[str, Any]] = []

    class SageMaker:
        def create_training_job(self, **request: Any) -> None:
            requests.append(request)

    monkeypatch.setattr(resources, "resources", lambda: {"environment": {}, "bucket": "capture"})
    monkeypatch.setattr(resources, "make_client", lambda environment, service: SageMaker())
    script = tmp_path / "my_train.py"
    with pytest.raises(LocalError, match="no such file"):
        resources.submit(str(script), [])
    script.write_text("")
    job = resources.submit(str(script), ["--epochs", "3"])
    (request,) = requests
    command = request["AlgorithmSpecification"]["ContainerEntrypoint"]
    assert command == [sys.executable, str(script), "--epochs", "3"]
    assert job["run"] == f"s3://capture/jobs/{job['job']}/debug-output"
    assert request["Environment"] == {
        "TOCSIN_RUN": job["run"],
        "TOCSIN_LOCAL_FOLDER": str(Path.cwd()),
    }
    assert json.loads(json.dumps(request))["TrainingJobName"].startswith("my-train-")
