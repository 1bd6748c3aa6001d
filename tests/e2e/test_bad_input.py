"""Bad input from bucket and queue: it is reported and affects nothing else."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import Checkpoint
from tocsin.events import STATUS_CHANGE
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    Collection,
    RunWriter,
    Storage,
    event_key,
    index_key,
    open_storage,
)

from local.events import Events, listen
from local.stack import LocalAws
from tests.waiting import patiently

pytestmark = pytest.mark.e2e


def empty_run(aws: LocalAws) -> Storage:
    """A new run in the capture bucket."""
    bucket = aws.outputs["CaptureBucketName"]
    name = f"bad-{uuid.uuid4().hex[:12]}"
    return open_storage(f"s3://{bucket}/jobs/{name}", client=aws.client("s3"))


@pytest.fixture
def run(aws: LocalAws) -> Storage:
    return empty_run(aws)


@pytest.fixture
def events(aws: LocalAws) -> Events:
    return listen(aws.client, aws.outputs["EventBusName"], f"test-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def concluded(aws: LocalAws, events: Events) -> Callable[[Storage], Checkpoint]:
    """Waits until the deployed stack has come to the run's end."""

    def wait(run: Storage) -> Checkpoint:
        store = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
        for _ in patiently():
            checkpoint = store.load(run.url).checkpoint
            if checkpoint.ended:
                return checkpoint
            events.receive(wait=1)
        raise AssertionError(f"{run.url} has not come to its end")

    return wait


@pytest.fixture(scope="module", autouse=True)
def poison(aws: LocalAws) -> Iterator[str]:
    """A message in the evaluate queue that always fails, beside all runs of these tests.

    It has one try instead of five, whose pauses take half an hour.
    """
    sqs, url = aws.client("sqs"), aws.outputs["EvaluateQueueUrl"]
    name = "RedrivePolicy"
    before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
    once = {**json.loads(before), "maxReceiveCount": 1}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: json.dumps(once)})
    body = json.dumps({"poison": uuid.uuid4().hex})
    sqs.send_message(QueueUrl=url, MessageBody=body)
    yield body
    sqs.set_queue_attributes(QueueUrl=url, Attributes={name: before})


def write_run(run: Storage, steps: int) -> None:
    writer = RunWriter(run, run_id="r")
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    for step in range(steps):
        writer.write(step, Mode.TRAIN, step, [Captured("loss", [1.0 / (step + 1)])])
    writer.close()


class Replacing:
    """A storage into which one file is written with another content."""

    def __init__(self, storage: Storage, key: str, content: bytes) -> None:
        self._storage, self._key, self._content = storage, key, content

    def write(self, key: str, data: bytes) -> None:
        self._storage.write(key, self._content if key == self._key else data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def index_with(**changes: Any) -> bytes:
    meta = {
        "mode": "TRAIN",
        "mode_step": 1,
        "event_file_name": event_key(1, "worker_0"),
        "tocsin": 1,
        "run_id": "r",
        "prev_step": 0,
    }
    payload = [{"tensorname": "loss", "start_idx": 0, "length": 98}]
    document = {"meta": meta, "tensor_payload": payload, "shape_payload": []}
    for key, value in changes.items():
        (meta if key in meta else document)[key] = value
    return json.dumps(document).encode()


BEYOND = [{"tensorname": "loss", "start_idx": 10, "length": 2**40}]
BAD_INDEX_FILES = {
    "not JSON": (b"{ not json", 1),
    "empty": (b"", 1),
    "outside its run": (index_with(event_file_name="../../other/secret"), 1),
    "absolute": (index_with(event_file_name="/etc/passwd"), 1),
    "range beyond the object": (index_with(tensor_payload=BEYOND), 0),
}


@pytest.fixture(scope="module")
def bad_runs(aws: LocalAws) -> dict[str, Storage]:
    """A run with each of the bad files. They are evaluated side by side."""
    runs = {name: empty_run(aws) for name in BAD_INDEX_FILES}
    for name, (content, _) in BAD_INDEX_FILES.items():
        write_run(cast(Storage, Replacing(runs[name], index_key(1, "worker_0"), content)), 4)
    return runs


@pytest.mark.parametrize("name", BAD_INDEX_FILES)
def test_a_bad_index_file_is_counted_and_the_rest_is_evaluated(
    bad_runs: dict[str, Storage], concluded: Callable[[Storage], Checkpoint], name: str
) -> None:
    refused = BAD_INDEX_FILES[name][1]
    checkpoint = concluded(bad_runs[name])
    assert checkpoint.refused_files == refused
    assert checkpoint.steps == 4 - refused
    statuses = {name: record.status.value for name, record in checkpoint.rules.items()}
    assert statuses["ExplodingTensor"] == "NoIssuesFound"
    assert checkpoint.rules["ExplodingTensor"].data_points == 3


def test_the_same_files_announced_again_change_and_publish_nothing(
    aws: LocalAws, run: Storage, events: Events, concluded: Callable[[Storage], Checkpoint]
) -> None:
    write_run(run, 3)
    concluded(run)
    _until_quiet(aws, run, events)
    sqs, url = aws.client("sqs"), aws.outputs["EvaluateQueueUrl"]
    bucket, _, prefix = run.url.removeprefix("s3://").partition("/")
    records = [
        {"s3": {"bucket": {"name": bucket}, "object": {"key": f"{prefix}/{item.key}"}}}
        for item in run.list("index/")
    ]
    store = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    before, announced = store.load(run.url), datetime.now(UTC)
    for _ in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"Records": records}))
    published = _until_quiet(aws, run, events)
    assert store.load(run.url) == before
    assert [each for each in published if each > announced] == []


def test_a_message_that_always_fails_ends_in_the_dead_letter_queue(
    aws: LocalAws, poison: str
) -> None:
    sqs, dead = aws.client("sqs"), aws.outputs["EvaluateDeadLetterQueueUrl"]
    for _ in patiently():
        answer = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=10, AttributeNames=["All"])
        for message in answer.get("Messages", []):
            if message["Body"] == poison:
                sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
                return
    pytest.fail("the message is not in the dead-letter queue")


def _until_quiet(aws: LocalAws, run: Storage, events: Events) -> list[datetime]:
    """Waits until every message has been handled; when what is heard of the run was published."""
    times = []
    for _ in patiently():
        times += [
            datetime.fromisoformat(event["detail"]["EvaluatedAt"])
            for event in events.receive(wait=1)
            if event["detail-type"] == STATUS_CHANGE and event["detail"]["Run"] == run.url
        ]
        if not _waiting(aws):
            return times
    raise AssertionError(f"{_waiting(aws)} messages are not handled")


def _waiting(aws: LocalAws) -> int:
    """How many messages are in the queue of evaluate, will be there, or are being handled."""
    names = [f"ApproximateNumberOfMessages{which}" for which in ("", "Delayed", "NotVisible")]
    found = aws.client("sqs").get_queue_attributes(
        QueueUrl=aws.outputs["EvaluateQueueUrl"], AttributeNames=names
    )["Attributes"]
    return sum(int(found[name]) for name in names)
