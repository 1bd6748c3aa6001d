"""Rules in files, deployed: they fire in Lambda, and remember from one invocation to the next."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from tocsin.aws.s3 import S3Checkpoints
from tocsin.custom import load_files
from tocsin.evaluation import Checkpoint, check, document
from tocsin.model import Mode
from tocsin.rules import _registry
from tocsin.tensors import Captured, Collection, RunWriter, open_storage

from local import LocalAws
from tests.waiting import patiently

pytestmark = pytest.mark.e2e

RULES = Path(__file__).parent / "custom_rules"
WATCH = {"rules": [{"rule": "AboveAverage", "parameters": {"factor": "1.5"}, "actions": []}]}
LOSSES = [1.0, 0.9, 0.8, 5.0, 0.7]


def test_a_rule_for_smdebug_fires_in_lambda(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = aws.outputs["CaptureBucketName"]
    run = open_storage(f"s3://{bucket}/jobs/custom", client=aws.client("s3"))
    store = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])

    def evaluated(step: int, *, ended: bool = False) -> Checkpoint:
        for _ in patiently():
            checkpoint = store.load(run.url).checkpoint
            if checkpoint.frontier >= step and (checkpoint.ended or not ended):
                return checkpoint
            time.sleep(0.02)  # there is nothing to wait on: the checkpoint is an object
        raise AssertionError(f"step {step} was not evaluated: {store.load(run.url)}")

    run.write("watch.json", json.dumps(WATCH).encode())  # which may name what was deployed
    writer = RunWriter(run, run_id="r")
    writer.write_collections([Collection("losses", tensor_names=("loss",))])
    for step, loss in enumerate(LOSSES):  # each is an invocation of its own
        writer.write(step, Mode.TRAIN, step, [Captured("loss", np.full(2, loss, np.float32))])
        record = evaluated(step).rules["AboveAverage"]
        assert len(record.state["attributes"]["seen"]["value"]) == step + 1, record.details
    writer.close()
    checkpoint = evaluated(step, ended=True)
    record = checkpoint.rules["AboveAverage"]
    assert (record.status.value, record.violations) == ("IssuesFound", 1)
    assert record.details == "AboveAverage returned True at step 3"

    monkeypatch.setattr(_registry, "_rules", dict(_registry._rules))
    load_files(RULES)
    alone, _ = check(run)
    assert document(alone) == document(checkpoint)
    assert alone.rules["AboveAverage"].state == record.state
