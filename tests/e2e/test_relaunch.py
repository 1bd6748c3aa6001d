"""The state machine's report of a job that cannot be started again reaches status and bus."""

from __future__ import annotations

import time

import msgspec
import pytest
from tocsin.actions import Relaunch
from tocsin.alerts import alerts_document
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups

from local.events import listen
from local.stack import LocalAws
from tests.waiting import patiently

pytestmark = pytest.mark.e2e

RUN = "s3://elsewhere/jobs/unknown"
ARN = "arn:aws:sagemaker:us-east-1:000000000000:training-job/unknown"
PLAN = Relaunch(ARN, "unknown", RUN, "ExplodingTensor", "d", "/opt/ml/checkpoints/5", 5, 2, {})


def test_what_is_not_started_is_reported(aws: LocalAws) -> None:
    events = listen(aws.client, aws.outputs["EventBusName"], "relaunch-report")
    machines = aws.client("stepfunctions")
    (machine,) = (
        each["stateMachineArn"]
        for each in machines.list_state_machines()["stateMachines"]
        if "Relaunch" in each["name"]
    )
    given = msgspec.json.encode({"plan": PLAN}).decode()
    machines.start_execution(stateMachineArn=machine, name=PLAN.execution, input=given)
    found = []
    for _ in patiently():
        found += [each["detail"] for each in events.receive() if each["detail"]["Run"] == RUN]
        if found:
            break
    (detail,) = found
    assert (detail["Action"], detail["Outcome"]) == ("relaunch", "refused")
    assert (detail["Reason"], detail["RuleConfigurationName"]) == ("job_ended", "ExplodingTensor")
    assert detail["Detail"] == f"SageMaker has no training job {ARN}"
    table = Table(aws.client("dynamodb"), aws.outputs["StateTableName"])
    (entry,) = alerts_document(DynamoGroups(table, time.time).load(RUN).group)
    assert entry["detail"] == detail["Detail"]
