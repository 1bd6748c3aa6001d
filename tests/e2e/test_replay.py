"""Many runs replayed by the deployment: `tocsin replay PREFIX --all`."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tocsin.aws.s3 import S3Checkpoints
from tocsin.evaluation import check
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, Captured, Collection, RunWriter, open_storage

from local import LocalAws
from local.environment import inherited

pytestmark = pytest.mark.e2e

RUNS = int(os.environ.get("TOCSIN_REPLAY_RUNS", "12"))
BUCKET = "old-runs"  # without notifications: the deployment does not see it
STEPS = 3
ROOT = Path(__file__).parents[2]
WATCH = {"rules": [{"rule": "VanishingGradient", "parameters": {"threshold": 1e-12}}]}


def write(aws: LocalAws, number: int) -> None:
    """A run whose gradients are tiny if its number is even. The deployment knows what it found in
    all but the first.
    """
    run = f"s3://{BUCKET}/team/{number:03d}/debug-output"
    storage = open_storage(run, client=aws.client("s3"))
    writer = RunWriter(storage, run_id=f"r{number}")
    writer.write_collections([Collection("gradients", include_regex=("^gradient",))])
    size = 1e-9 if number % 2 == 0 else 1e-2
    for step in range(STEPS):
        writer.write(step, Mode.TRAIN, step, [Captured("gradient/w", np.full(4, size))])
    storage.write(END_MARKER, b"")
    if number:
        found, _ = check(storage)
        state = S3Checkpoints(aws.client("s3"), aws.outputs["StateBucketName"])
        state.save(replace(found, run=run), None)


@pytest.fixture(scope="module")
def old(aws: LocalAws) -> LocalAws:
    aws.client("s3").create_bucket(Bucket=BUCKET)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: write(aws, number), range(RUNS)))
    return aws


@dataclass(frozen=True)
class Said:
    code: int
    json: Any
    rows: list[dict[str, str]]


def replay(aws: LocalAws, folder: Path, *arguments: str) -> Said:
    python_path = os.pathsep.join(str(ROOT / room) for room in ("rules_layer", "hooks"))
    environment = {**inherited(), **aws.environment, "TOCSIN_CAPTURE_BUCKET": BUCKET}
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", "replay", *arguments, "--all", "--json"],
        env={**environment, "PYTHONPATH": python_path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    rows = list(csv.DictReader(io.StringIO((folder / said["tables"][0]).read_text())))
    return Said(done.returncode, said, rows)


def listed(aws: LocalAws, bucket: str, prefix: str = "") -> list[tuple[str, str]]:
    pages = aws.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [(each["Key"], each["ETag"]) for page in pages for each in page.get("Contents", ())]


def test_a_new_threshold_is_tried_on_every_run(old: LocalAws, tmp_path: Path) -> None:
    (tmp_path / "new.json").write_text(json.dumps(WATCH))
    state = old.outputs["StateBucketName"]
    before = listed(old, BUCKET), listed(old, state, "checkpoints/")

    said = replay(old, tmp_path, f"s3://{BUCKET}/team/", "--watch", "new.json", "-o", "table")

    assert (said.code, said.json["runs"], said.json["failed"]) == (0, RUNS, [])
    assert said.json["new"] == [f"s3://{BUCKET}/team/000/debug-output"]
    (rule,) = said.json["rules"]
    fired_before = len(range(2, RUNS, 2))
    assert rule["RuleConfigurationName"] == "VanishingGradient"
    assert (rule["before"], rule["now"], len(rule["only_before"])) == (
        fired_before,
        0,
        fired_before,
    )
    rows = {row["job"]: row for row in said.rows if row["rule"] == "VanishingGradient"}
    assert len(rows) == RUNS
    tiny = rows["002"]
    assert (tiny["status"], tiny["status_before"]) == ("NoIssuesFound", "IssuesFound")
    assert (tiny["step"], tiny["changed"]) == ("", "True")
    assert tiny["step_before"]
    assert (rows["000"]["status_before"], rows["000"]["changed"]) == ("", "False")
    assert (listed(old, BUCKET), listed(old, state, "checkpoints/")) == before


def test_a_run_longer_than_a_function_may_take_goes_on(old: LocalAws, tmp_path: Path) -> None:
    """With 30 seconds, which the function keeps for its end, each call evaluates one step."""
    lambda_ = old.client("lambda")
    names = [each["FunctionName"] for each in lambda_.list_functions()["Functions"]]
    (name,) = [name for name in names if name.startswith("Tocsin-ReplaysReplay")]
    lambda_.update_function_configuration(FunctionName=name, Timeout=30)
    try:
        said = replay(old, tmp_path, f"s3://{BUCKET}/team/002")
    finally:
        lambda_.update_function_configuration(FunctionName=name, Timeout=900)
    assert (said.code, said.json["runs"]) == (1, 1)
    rows = {row["rule"]: row for row in said.rows}
    assert rows["VanishingGradient"]["status"] == "IssuesFound"
    assert {row["changed"] for row in said.rows} == {"False"}
