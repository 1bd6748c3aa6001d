"""Runs that cause alerts, and the actions of the deployed stack."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tocsin.alerts import AlertGroup
from tocsin.aws.dynamodb import Table
from tocsin.aws.groups import DynamoGroups
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, RunWriter, Storage, open_storage

from local.events import Events, listen
from local.mailbox import MailboxMessage
from local.stack import LocalAws
from tests.waiting import patiently

NAN = float("nan")


@dataclass(frozen=True)
class Alerting:
    """A new run in the capture bucket, with the watch file ``watch``."""

    aws: LocalAws
    storage: Storage
    events: Events

    @property
    def job(self) -> str:
        return self.storage.url.rpartition("/")[2]

    def write(self, losses: Sequence[float], *, end: bool = True) -> None:
        """One step for each loss."""
        writer = RunWriter(self.storage, run_id="r")
        writer.write_collections([Collection("losses", tensor_names=("loss",))])
        for step, loss in enumerate(losses):
            writer.write(step, Mode.TRAIN, step, [Captured("loss", [loss])])
        if end:
            writer.close()

    def group(self) -> AlertGroup:
        table = Table(self.aws.client("dynamodb"), self.aws.outputs["StateTableName"])
        return DynamoGroups(table, time.time).load(self.storage.url).group

    def until(self, reached: Callable[[AlertGroup], bool]) -> AlertGroup:
        """The run's group as soon as ``reached``; events wake the look at it."""
        for _ in patiently():
            group = self.group()
            if reached(group):
                return group
            self.events.receive(wait=1)
        raise AssertionError(f"the alerts of {self.storage.url} have not come so far: {group}")

    def settled(self, sends: int) -> AlertGroup:
        """Wait until ``sends`` lines of the log are sent and nothing is pending."""
        return self.until(lambda group: len(_sent(group)) >= sends and not group.tasks)

    def mails(self) -> list[MailboxMessage]:
        """Return the messages to subscribers about the run."""
        return [
            message
            for message in self.aws.mailbox.receive(wait=1)
            if message.attributes.get("job") == self.job
        ]


def alerting(aws: LocalAws, **watch: Any) -> Alerting:
    """An empty run with a watch file; waits are short."""
    name = f"alert-{uuid.uuid4().hex[:12]}"
    bucket = aws.outputs["CaptureBucketName"]
    storage = open_storage(f"s3://{bucket}/jobs/{name}", client=aws.client("s3"))
    watch = {"notify": {"group_wait": "1s", "group_interval": "10s"}, **watch}
    events = listen(aws.client, aws.outputs["EventBusName"], name)
    storage.write("watch.json", json.dumps(watch).encode())
    return Alerting(aws, storage, events)


def _sent(group: AlertGroup) -> list[Any]:
    return [entry for entry in group.log if entry.decision == "send"]
