"""The function ``replay`` against AWS in process."""

from __future__ import annotations

import json
import time
from typing import Any

import boto3
import numpy as np
import pytest
from msgspec.structs import replace
from tocsin.aws.connect.replay import connect_replay
from tocsin.aws.replays import StoredReplay
from tocsin.aws.run_listing import runs_below
from tocsin.aws.s3 import S3Checkpoints
from tocsin.aws.settings import ReplaySettings
from tocsin.evaluation import Checkpoint, check
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, RunWriter, open_storage
from tocsin.watch import to_watch

RUN = "s3://captures/jobs/j1/debug-output"
TINY = {"rule": "VanishingGradient"}
LAX = {**TINY, "parameters": {"threshold": 1e-12}}

pytestmark = pytest.mark.usefixtures("aws_in_process")


@pytest.fixture
def s3() -> Any:
    """With a run whose gradients are tiny, which was written an hour ago and never ended."""
    client = boto3.client("s3")
    for bucket in ("captures", "state"):
        client.create_bucket(Bucket=bucket)
    writer = RunWriter(open_storage(RUN), run_id="r1")
    writer.write_collections([Collection("gradients", include_regex=("^gradient",))])
    for step in range(5):
        writer.write(step, Mode.TRAIN, step, [Captured("gradient/w", np.full(4, 1e-9))])
    return client


def statuses(result: dict[str, Any] | None, key: str = "rules") -> dict[str, str]:
    assert result is not None
    return {each["RuleConfigurationName"]: each["RuleEvaluationStatus"] for each in result[key]}


def test_a_call_goes_on_from_the_checkpoint_of_the_one_before(s3: Any) -> None:
    replay = connect_replay(ReplaySettings("state"), to_watch({"rules": [TINY]}))
    stored = StoredReplay(s3, "state", "slow")
    calls = 1
    while not replay("slow", RUN, time.time()):  # no time at all: a step a call
        assert stored.result(RUN) is None
        calls += 1
    assert calls == 5
    slow = stored.result(RUN)
    assert replay("fast", RUN, time.time() + 600)
    fast = StoredReplay(s3, "state", "fast").result(RUN)
    assert slow == fast
    assert statuses(slow) == {"VanishingGradient": "IssuesFound"}
    assert statuses(slow, "before") == {}
    assert S3Checkpoints(s3, "state").load(RUN).version is None


@pytest.mark.parametrize(
    ("watch", "own", "job", "expected"),
    [
        (None, None, None, "IssuesFound"),  # the deployment's
        (None, None, LAX, "InProgress"),  # those of the SageMaker job, as found then
        (None, LAX, TINY, "InProgress"),  # the run's own before the job's
        (LAX, TINY, TINY, "InProgress"),  # that of the replay before all
    ],
)
def test_the_configuration_is_the_given_one_or_that_of_the_run(
    s3: Any, watch: Any, own: Any, job: Any, expected: str
) -> None:
    if own:
        body = json.dumps({"rules": [own]}).encode()
        s3.put_object(Bucket="captures", Key="jobs/j1/debug-output/watch.json", Body=body)
    if job:
        then = Checkpoint(RUN, job_watch=to_watch({"rules": [job]}))
        S3Checkpoints(s3, "state").save(then, None)
    given = to_watch({"rules": [watch]}) if watch else None
    StoredReplay(s3, "state", "once").write_runs([RUN], given)
    replay = connect_replay(ReplaySettings("state"), to_watch({"rules": [TINY]}))
    assert replay("once", RUN, time.time() + 600)
    found = StoredReplay(s3, "state", "once").result(RUN)
    assert statuses(found) == {"VanishingGradient": expected}


def test_what_was_found_then_is_beside_it(s3: Any) -> None:
    then, _ = check(open_storage(RUN), to_watch({"rules": [LAX]}))
    S3Checkpoints(s3, "state").save(replace(then, run=RUN), None)
    replay = connect_replay(ReplaySettings("state"), to_watch({"rules": [TINY]}))
    assert replay("once", RUN, time.time() + 600)
    found = StoredReplay(s3, "state", "once").result(RUN)
    assert statuses(found, "before") == {"VanishingGradient": "InProgress"}
    assert statuses(found) == {"VanishingGradient": "IssuesFound"}


def test_runs_are_found_at_any_depth(s3: Any) -> None:
    for key in ("jobs/j2/collections/000000000/worker_0_collections.json", "jobs/notes.txt"):
        s3.put_object(Bucket="captures", Key=key, Body=b"{}")
    s3.put_object(Bucket="captures", Key="other/deep/er/index/000000000/x.json", Body=b"{}")
    s3.put_object(Bucket="captures", Key="jobs/j2/inner/index/000000000/x.json", Body=b"{}")
    j2, deep = "s3://captures/jobs/j2", "s3://captures/other/deep/er"
    assert runs_below(s3, "captures", "") == [RUN, j2, deep]
    assert runs_below(s3, "captures", "jobs/") == [RUN, j2]
    assert runs_below(s3, "captures", "jobs/j2/") == [j2]
    assert runs_below(s3, "captures", "none/") == []
