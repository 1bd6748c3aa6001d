"""Another version has evaluated a run before: an earlier one, or after a rollback a later one."""

from __future__ import annotations

import json
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.aws.s3 import UNREADABLE, S3Checkpoints, checkpoint_key
from tocsin.aws.settings import GROUP_PREFIX
from tocsin.evaluation import Checkpoint
from tocsin.evaluation.unit_of_work import BEGUN_AGAIN
from tocsin.evaluation.upgrade import VERSION
from tocsin.model import Mode, RuleStatus
from tocsin.tensors import Captured, Collection, RunWriter, open_storage
from tocsin.watch import resolve, to_watch

from local import LocalAws
from tests.waiting import becomes

pytestmark = pytest.mark.e2e

STATE = Path(__file__).parents[1] / "fixtures" / "state"
TENSOR = "gradient/MLP_fc1.weight"
WATCH = {
    "rules": [
        {"rule": "VanishingGradient", "name": "small", "parameters": {"threshold": 100.0}},
    ],
    "actions": [],
}


def content(name: str, run: str) -> Any:
    """The JSON of a fixture, as if it was the run's."""
    written = json.loads(zlib.decompress((STATE / name).read_bytes()))
    return json.loads(json.dumps(written).replace(written["run"], run))


def packed(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode())


def put_checkpoint(aws: LocalAws, run: str, checkpoint: Any) -> None:
    aws.client("s3").put_object(
        Bucket=aws.outputs["StateBucketName"], Key=checkpoint_key(run), Body=packed(checkpoint)
    )


def train(aws: LocalAws, run: str, *steps: int) -> None:
    storage = open_storage(run, client=aws.client("s3"))
    storage.write("watch.json", json.dumps(WATCH).encode())
    writer = RunWriter(storage)
    writer.write_collections([Collection("gradients", include_regex=("^gradient",))])
    for step in steps:
        writer.write(step, Mode.TRAIN, step, [Captured(TENSOR, np.full(4, 1e-3))])


def evaluated(aws: LocalAws, run: str, frontier: int) -> Checkpoint:
    """Wait for the checkpoint with this frontier."""
    store = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
    assert becomes(lambda: store.load(run).checkpoint.frontier == frontier)
    return store.load(run).checkpoint


def test_what_an_earlier_version_began_goes_on(aws: LocalAws) -> None:
    """A checkpoint and a group of alerts of version 1: the checkpoint's changes were not published
    yet, and so `act` hears of them now, and takes the action that had failed.
    """
    run = f"s3://{aws.outputs['CaptureBucketName']}/upgrade/j1"
    old = content("checkpoint-1.zlib", run) | {"ended": None, "summaries": []}
    old["last_time"] = time.time()  # a look before the next step would end a run silent for a day
    ((as_before,), _) = resolve(to_watch(WATCH))  # a rule that judges otherwise begins again
    old["rules"]["small"]["fingerprint"] = as_before.fingerprint
    group = content("group-1.zlib", run)
    item = {
        "pk": {"S": f"{GROUP_PREFIX}{run}"},
        "version": {"N": "1"},
        "body": {"B": packed(group)},
    }
    table = aws.outputs["StateTableName"]
    aws.client("dynamodb").put_item(TableName=table, Item=item)
    put_checkpoint(aws, run, old)

    train(aws, run, 80)

    found, before = evaluated(aws, run, 80), old["rules"]["small"]
    rule = found.rules["small"]
    assert (found.version, found.steps) == (VERSION, old["steps"] + 1)
    assert (rule.status, rule.violations) == (RuleStatus.ISSUES_FOUND, before["violations"] + 1)
    assert rule.first_violation is not None
    assert rule.first_violation.step == before["first_violation"]["step"]

    def acted() -> bool:
        key = {"pk": item["pk"]}
        stored = aws.client("dynamodb").get_item(TableName=table, Key=key)["Item"]
        if stored["version"]["N"] == "1":
            return False
        now = json.loads(zlib.decompress(stored["body"]["B"]))
        *kept, email = group["log"]
        assert now["log"][: len(kept)] == kept
        again = now["log"][len(kept)]
        assert email["outcome"] == "failed"
        return bool(again == {**email, "outcome": "done", "detail": again["detail"]})

    assert becomes(acted)


def test_after_a_rollback_what_a_later_version_wrote_begins_again(aws: LocalAws) -> None:
    """A checkpoint of a later version is put aside, and the run evaluated again from its start."""
    run = f"s3://{aws.outputs['CaptureBucketName']}/upgrade/j2"
    later = content("checkpoint-2.zlib", run) | {"version": VERSION + 1, "frontier": 1}
    put_checkpoint(aws, run, later)

    train(aws, run, 0, 1, 2)

    found = evaluated(aws, run, 2)
    assert (found.version, found.steps, found.note) == (VERSION, 3, BEGUN_AGAIN)
    assert found.rules["small"].status is RuleStatus.ISSUES_FOUND
    copy = aws.client("s3").get_object(
        Bucket=aws.outputs["StateBucketName"], Key=f"{checkpoint_key(run)}{UNREADABLE}"
    )
    assert json.loads(zlib.decompress(copy["Body"].read())) == later
