"""The runs of a deployment, as its dashboard shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from msgspec.structs import replace
from tocsin.aws.fleet import MOST_ROWS, fleet_table, stored_runs
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import Checkpoint, check
from tocsin.model import Mode
from tocsin.tensors import Captured, Collection, LocalStorage, RunWriter

LATER = timedelta(minutes=7, seconds=5)


@pytest.fixture
def s3(aws_in_process: None) -> Any:
    client = boto3.client("s3")
    client.create_bucket(Bucket="state")
    return client


def sick(folder: Path, run: str) -> Checkpoint:
    """The checkpoint of a run whose loss is NaN."""
    writer = RunWriter(LocalStorage(folder), run_id="r1")
    writer.write_collections([Collection("losses", include_regex=("^loss$",))])
    for step in range(3):
        loss = np.float32(np.nan if step == 2 else 1.0)
        writer.write(step, Mode.TRAIN, step, [Captured("loss", loss)])
    checkpoint, _ = check(LocalStorage(folder))
    return replace(checkpoint, run=run)


def table(s3: Any) -> str:
    runs = [run for _, run in stored_runs(s3, "state", MOST_ROWS)]
    now = max((run.modified for run in runs), default=datetime.now(UTC)) + LATER
    return fleet_table(runs, now, "eu-west-1", "state")


def test_a_run_has_a_row(s3: Any, tmp_path: Path) -> None:
    S3Checkpoints(s3, "state").save(sick(tmp_path, "s3://b/jobs/j1/debug-output"), None)
    html = table(s3)
    assert "<td>▲ critical</td>" in html
    assert ">j1</a>" in html
    assert "Training broke at step 2: " in html
    assert "<td>2</td><td>7 min ago, running</td>" in html
    files = "https://eu-west-1.console.aws.amazon.com/s3/buckets/b"
    assert f'href="{files}?region=eu-west-1&amp;prefix=jobs/j1/debug-output/"' in html
    reports = "https://eu-west-1.console.aws.amazon.com/s3/object/state"
    assert f'href="{reports}?region=eu-west-1&amp;prefix=reports/j1/' in html


def test_texts_of_a_run_stay_texts(s3: Any, tmp_path: Path) -> None:
    run = 's3://b/<script>alert(1)</script>"/debug-output'
    S3Checkpoints(s3, "state").save(sick(tmp_path, run), None)
    html = table(s3)
    assert "<script" not in html
    assert html.count("<a href=") == 2
    assert "%22" in html


def test_the_newest_are_shown_and_one_that_cannot_be_read(s3: Any, tmp_path: Path) -> None:
    checkpoint = sick(tmp_path, "s3://b/jobs/j1/debug-output")
    for at in range(MOST_ROWS + 5):
        S3Checkpoints(s3, "state").save(replace(checkpoint, run=f"s3://b/r{at}"), None)
    s3.put_object(Bucket="state", Key="checkpoints/bad/x.json.z", Body=b"no checkpoint")
    html = table(s3)
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "– unreadable" in html


def test_no_run_is_said(s3: Any) -> None:
    assert table(s3) == "<p>No run has been evaluated yet.</p>"


def test_a_known_checkpoint_is_not_read_again(s3: Any, tmp_path: Path) -> None:
    S3Checkpoints(s3, "state").save(sick(tmp_path, "s3://b/j1"), None)
    known = {(run.key, tag): run for tag, run in stored_runs(s3, "state")}
    s3.get_object = None
    (again,) = (run for _, run in stored_runs(s3, "state", known=known))
    assert again in known.values()
