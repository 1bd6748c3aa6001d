"""Other runs: which one is meant, and what of them rules see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tocsin.evaluation.trials import beside, same_files
from tocsin.model import Mode
from tocsin.tensors import Captured, IndexFile, LocalStorage, write_step


@pytest.mark.parametrize(
    ("run", "other", "url"),
    [
        ("s3://b/jobs/j2/debug-output", "j1", "s3://b/jobs/j1/debug-output"),
        ("s3://b/jobs/j2", "j1", "s3://b/jobs/j1"),
        ("s3://b/j2/j2", "j1", "s3://b/j2/j1"),
        ("/runs/j2", "j1", "/runs/j1"),
        ("s3://b/jobs/j2", "s3://b/else/where/", "s3://b/else/where"),
        ("/runs/j2", "/other/j1", "/other/j1"),
    ],
)
def test_a_job_beside_this_one_or_any_run(run: str, other: str, url: str) -> None:
    assert beside(run, other) == url


@pytest.mark.parametrize(
    "other", ["s3://my bucket/j1", "s3://b/" + "j" * 1024, "s3:/b/j", "j" * 1024]
)
def test_what_no_run_can_be_called(other: str) -> None:
    with pytest.raises(ValueError, match="not of the form s3://bucket/prefix"):
        beside("s3://b/jobs/j2", other)


def test_only_what_can_be_used(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for worker in ("worker_0", "worker_1"):
        write_step(
            storage,
            step=3,
            worker=worker,
            mode=Mode.TRAIN,
            mode_step=3,
            tensors=[Captured("loss", np.float32(1.0))],
        )
    (tmp_path / "index/000000000/000000000003_worker_1.json").write_bytes(b"{")
    asked = [
        IndexFile(step, worker, Mode.TRAIN, step, None, None, ())
        for step in (3, 4)
        for worker in ("worker_0", "worker_1", "worker_2")
    ]
    assert [(file.step, file.worker) for file in same_files(storage, asked)] == [(3, "worker_0")]
