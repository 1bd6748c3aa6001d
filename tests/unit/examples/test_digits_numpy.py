"""The example as people run it: as a process of its own."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tocsin.evaluation import check, document
from tocsin.model import Mode
from tocsin.tensors import (
    END_MARKER,
    IndexFile,
    LocalStorage,
    open_storage,
    read_collections,
    read_index,
    read_values,
)

from tests.waiting import PATIENCE

SCRIPT = Path(__file__).parents[3] / "examples" / "digits_numpy.py"


def start(run: Path, *arguments: str) -> subprocess.Popen[str]:
    """However slow the machine is, no step is saved more rarely than asked."""
    watch = run.with_suffix(".watch.json")
    watch.write_text('{"capture": {"max_overhead": 1}}')
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--out", str(run), "--watch", str(watch), *arguments],
        env={name: value for name, value in os.environ.items() if name != "TRAINING_JOB_NAME"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert all(line.startswith("tocsin: capturing to ") for line in errors.splitlines())
    return output


def fired(run: Path) -> dict[str, dict[str, Any]]:
    """The rules of profile recommended that fire, by their names."""
    checkpoint, report = check(open_storage(run))
    assert not report.log
    rules = document(checkpoint)["rules"]
    return {each["Rule"]: each for each in rules if each["RuleEvaluationStatus"] == "IssuesFound"}


def indexes(run: Path, mode: Mode = Mode.TRAIN) -> list[IndexFile]:
    storage = LocalStorage(run)
    found = [read_index(storage, item) for item in storage.list("index/")]
    return [index for index in found if index.mode is mode]


def losses(run: Path) -> dict[int, float]:
    storage = LocalStorage(run)
    values = {i.mode_step: read_values(storage, i, {"loss"})["loss"] for i in indexes(run)}
    return {step: float(np.asarray(value)[0]) for step, value in values.items()}


def gradients(index: IndexFile) -> dict[str, float]:
    return {
        entry.name: entry.summary.abs_mean
        for entry in index.entries
        if entry.role == "gradient" and entry.summary and entry.summary.abs_mean is not None
    }


def test_the_defaults_train_well(tmp_path: Path) -> None:
    checkpoint = tmp_path / "model.npz"
    output = finish(start(tmp_path / "run", "--checkpoint", str(checkpoint)))
    curve = losses(tmp_path / "run")
    assert list(curve) == list(range(0, 500, 10))
    assert all(math.isfinite(loss) for loss in curve.values())
    thirds = [np.mean(list(curve.values())[at : at + 16]) for at in (0, 16, 32)]
    assert thirds[0] > 2 * thirds[1] > 2 * thirds[2]
    assert min(min(gradients(index).values()) for index in indexes(tmp_path / "run")) > 1e-5
    evaluations = indexes(tmp_path / "run", Mode.EVAL)
    assert [index.mode_step for index in evaluations] == list(range(10))
    accuracy = evaluations[-1].entry("accuracy")
    assert accuracy is not None
    assert accuracy.role == "metric"
    assert accuracy.summary is not None
    assert (accuracy.summary.mean or 0) > 0.95
    assert output.splitlines()[-1] == f"checkpoint of step 499: {checkpoint}"
    with np.load(checkpoint) as saved:
        assert saved["weight0"].shape == (64, 64)
    assert (tmp_path / "run" / END_MARKER).exists()
    assert fired(tmp_path / "run") == {}
    collections = read_collections(LocalStorage(tmp_path / "run"))
    assert collections is not None
    assert collections.collections["weights"].tensor_names == (
        "layer0/weight",
        "layer1/weight",
        "layer2/weight",
    )


def test_a_high_learning_rate_trains_for_a_while_and_then_diverges(tmp_path: Path) -> None:
    # Fewer saves than the hook lets wait: none is dropped, however slow the disk is.
    finish(start(tmp_path, "--fault", "diverging", "--steps", "200", "--save-interval", "4"))
    curve = losses(tmp_path)
    assert list(curve) == list(range(0, 200, 4))
    first = min(step for step, loss in curve.items() if not math.isfinite(loss))
    assert 30 <= first < 180
    assert min(loss for step, loss in curve.items() if 10 <= step < first) < curve[0] / 2
    assert math.isnan(curve[196])
    assert {"ExplodingTensor", "LossDiverging"} <= fired(tmp_path).keys()


def test_gradients_vanish_in_a_deep_sigmoid_network(tmp_path: Path) -> None:
    finish(start(tmp_path, "--fault", "vanishing", "--steps", "60"))
    for index in indexes(tmp_path):
        size = gradients(index)
        assert size["gradient/layer0/weight"] < 1e-7
        assert size["gradient/layer10/weight"] > 1e-3
    found = fired(tmp_path)
    assert found.keys() == {"VanishingGradient"}
    assert found["VanishingGradient"]["FirstViolation"]["tensor"] == "gradient/layer0/weight"


def test_workers_share_a_run(tmp_path: Path) -> None:
    several = ("--steps", "20", "--num-workers", "2", "--worker")
    for process in [start(tmp_path, *several, f"worker_{rank}") for rank in range(2)]:
        finish(process)
    found = indexes(tmp_path)
    assert {(index.worker, index.mode_step) for index in found} == {
        ("worker_0", 0),
        ("worker_0", 10),
        ("worker_1", 0),
        ("worker_1", 10),
    }
    collections = read_collections(LocalStorage(tmp_path))
    assert collections is not None
    assert collections.num_workers == 2


def test_a_stop_request_ends_it_in_order(tmp_path: Path) -> None:
    checkpoint = tmp_path / "model.npz"
    process = start(
        tmp_path / "run",
        *("--steps", "1000000", "--eval-interval", "1", "--checkpoint", str(checkpoint)),
        *("--seconds-per-step", "0.01", "--poll-interval", "0.01"),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("step 1: loss")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    stopped, saved = output.splitlines()[-2:]
    assert stopped.startswith("stop requested after step ")
    assert saved == f"checkpoint of step {stopped.split()[-1]}: {checkpoint}"
    assert checkpoint.exists()
    assert not (tmp_path / "run" / END_MARKER).exists()


def test_it_goes_on_from_a_checkpoint_with_another_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "saved" / "last.npz"
    steps = ("--steps", "40", "--save-interval", "1", "--checkpoint", str(saved))
    finish(start(tmp_path / "first", *steps, "--checkpoint-interval", "20"))
    checkpoint = saved.with_name("step-19.npz")
    named = [each.meta.checkpoint for each in indexes(tmp_path / "first") if each.meta]
    assert {each.path for each in named if each} == {str(checkpoint)}

    monkeypatch.setenv("TOCSIN_CHECKPOINT", str(checkpoint))
    monkeypatch.setenv("SM_HP_LEARNING_RATE", "0")
    finish(start(tmp_path / "again", *steps))
    again = indexes(tmp_path / "again")
    assert [each.mode_step for each in again] == [*range(20, 40)]
    assert all(each.meta and each.meta.resumed_from == 19 for each in again)
    with np.load(checkpoint) as before, np.load(saved) as after:
        assert np.array_equal(before["weight0"], after["weight0"])
        assert (int(before["step"]), int(after["step"])) == (19, 39)
