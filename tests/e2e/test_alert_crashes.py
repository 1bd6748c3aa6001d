"""``act`` cut off before and after each call of AWS: nothing is lost, one thing repeated."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tocsin.alerts import Deliver, react
from tocsin.aws.connect.act import connect_act
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.settings import ActSettings
from tocsin.events import ACTION_TAKEN, StatusChange
from tocsin.tensors import STOP, open_storage

from local.events import listen
from local.stack import LocalAws
from tests.integration.alerts.conftest import commit_change
from tests.waiting import patiently

pytestmark = pytest.mark.e2e

VISIBILITY = 180.0
ACTIONS = ("email", "metric", "stop")


class Cut(BaseException):
    """The invocation is over, whatever it was doing."""


@dataclass
class Invocations:
    """One message, delivered until it is worked off; the first try is cut off at a call: before
    it (``"before-call"``) or when AWS has answered (``"after-call"``).
    """

    aws: LocalAws
    cut_at: int = -1
    moment: str = "before-call"
    clock: float = field(default_factory=time.time)
    calls: Counter[str] = field(default_factory=Counter)
    names: list[str] = field(default_factory=list)

    def client(self, service: str) -> Any:
        client = self.aws.client(service)
        for moment in ("before-call", "after-call"):
            client.meta.events.register(f"{moment}.*", self._seen(moment))
        return client

    def _seen(self, moment: str) -> Any:
        def see(**asked: Any) -> None:
            self.calls[moment] += 1
            if moment == "before-call":
                self.names.append(asked["model"].name)
            if moment == self.moment and self.calls[moment] == self.cut_at + 1:
                raise Cut

        return see

    def deliver(self, alert: StatusChange, queue: str) -> None:
        state = S3Checkpoints(self.aws.client("s3"), self.aws.outputs["StateBucketName"])
        commit_change(alert, state)
        world = connect_act(settings(self.aws, queue), self.client, lambda: self.clock)
        for _ in range(5):
            try:
                for message in (alert, Deliver(alert.run)):
                    react(message, world, ends=self.clock + 30)
            except Cut:
                self.clock += VISIBILITY
            else:
                return
        pytest.fail("the message has ended in the dead-letter queue")


def settings(aws: LocalAws, queue: str) -> ActSettings:
    """The deployment's, but for the queue: what is to be done later is nobody's here."""
    outputs = aws.outputs
    return ActSettings(
        table=outputs["StateTableName"],
        bus=outputs["EventBusName"],
        topic_arn=outputs["AlertTopicArn"],
        state_bucket=outputs["StateBucketName"],
        act_queue_url=queue,
        stop_guard="1000/10m",
    )


def critical(aws: LocalAws) -> StatusChange:
    """An alert of a run that does not exist but for this."""
    job = f"cut-{uuid.uuid4().hex[:12]}"
    detail = {
        "TrainingJobName": job,
        "Run": f"s3://{aws.outputs['CaptureBucketName']}/jobs/{job}",
        "RuleConfigurationName": "ExplodingTensor",
        "Rule": "ExplodingTensor",
        "RuleEvaluationStatus": "IssuesFound",
        "Severity": "critical",
        "Evidence": {"nan": 1},
        "Actions": list(ACTIONS),
        "Sequence": 1,
        "DedupId": uuid.uuid4().hex,
    }
    return msgspec.convert(detail, StatusChange)


def test_a_cut_at_any_call_loses_nothing_and_repeats_one_message_at_most(aws: LocalAws) -> None:
    queue = aws.client("sqs").create_queue(QueueName=f"cut-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    events = listen(aws.client, aws.outputs["EventBusName"], f"cut-{uuid.uuid4().hex[:8]}")
    whole = Invocations(aws)
    whole.deliver(critical(aws), queue)
    calls = whole.calls["before-call"]
    assert calls == whole.calls["after-call"] >= 10
    alerts = {}
    # All calls are cut in tests/integration/alerts/test_crashes.py; here a few, at a real SNS.
    publish = whole.names.index("Publish")
    for number in (publish, publish + 1, calls - 1):
        for moment in ("before-call", "after-call"):
            alert = critical(aws)
            alerts[alert.training_job_name] = alert
            Invocations(aws, number, moment).deliver(alert, queue)
    mails = Counter(mail.attributes.get("job", "") for mail in aws.mailbox.receive(wait=1))
    assert {mails[job] for job in alerts} == {1, 2}
    twice = [job for job in alerts if mails[job] == 2]
    assert len(twice) == 2, "cut off behind SNS's answer, or before the record of it"
    done = {(action, "done") for action in ACTIONS}
    told: dict[str, set[tuple[str, str]]] = {job: set() for job in alerts}
    for _ in patiently():
        for event in events.receive(wait=1):
            detail = event["detail"]
            if event["detail-type"] == ACTION_TAKEN and detail["TrainingJobName"] in told:
                told[detail["TrainingJobName"]].add((detail["Action"], detail["Outcome"]))
        if all(found >= done for found in told.values()):
            break
    assert told == dict.fromkeys(alerts, done)
    s3 = aws.client("s3")
    for alert in alerts.values():
        assert open_storage(alert.run, client=s3).head(STOP).size > 0
