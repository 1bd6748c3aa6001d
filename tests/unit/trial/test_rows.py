"""Numbers and summaries as rows."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import BadPattern, Captured, RunMeta, event_key, reduction_name
from tocsin.trial.rows import KEYS, rows


def _rows(trial, regex=None, mode=Mode.GLOBAL, worker=None):
    names = trial.tensor_names(regex=regex, mode=mode)
    return rows(trial._catalog, trial._reader, names, mode, worker)


def test_numbers(run):
    tensors = {
        "loss": np.float32(0.5),
        "count": np.array([3]),
        "flag": np.array(True),
        "two": np.array([1.0, 2.0]),
        "text": np.array(["a"]),
        "complex": np.array([1j]),
        "weights": np.ones(5000),
    }
    trial = run.collections().step(20, tensors=tensors, mode_step=2).trial()
    assert [tuple(row[key] for key in (*KEYS, "value")) for row in _rows(trial)] == [
        (20, "TRAIN", 2, "worker_0", "loss", 0.5),
        (20, "TRAIN", 2, "worker_0", "count", 3),
        (20, "TRAIN", 2, "worker_0", "flag", True),
    ]


@pytest.fixture
def two(run):
    run.collections(2).step(0, "worker_0", "worker_1", tensors={"loss": 1.0, "acc": 2.0})
    run.step(10, "worker_0", "worker_1", tensors={"loss": 3.0}, mode=Mode.EVAL, mode_step=0)
    return run.step(20, tensors={"loss": 9.0})


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ({}, [1.0, 2.0, 1.0, 2.0, 3.0, 3.0]),
        ({"worker": "worker_1"}, [1.0, 2.0, 3.0]),
        ({"worker": "worker_7"}, []),
        ({"mode": Mode.EVAL}, [3.0, 3.0]),
        ({"regex": "^l"}, [1.0, 1.0, 3.0, 3.0]),
        ({"regex": ["acc", "none"], "worker": "worker_0"}, [2.0]),
        ({"regex": []}, []),
    ],
)
def test_choosing(two, question, values):
    assert [row["value"] for row in _rows(two.trial(), **question)] == values


def test_a_bad_pattern(two):
    with pytest.raises(BadPattern):
        _rows(two.trial(), "(")


def test_summaries(run):
    summary = TensorSummary(size=6, nan=0, mean=2.0, update_l2=0.1, fingerprint="f")
    captured = [
        Captured("w", shape=(2, 3), summary=summary),
        Captured("loss", 0.5, summary=TensorSummary(size=1, mean=0.5)),
        Captured("shape", shape=(2, 3)),
    ]
    run.collections().step(0, captured=captured, meta=RunMeta("r"))
    loss, w = sorted(_rows(run.trial()), key=lambda row: row["tensor"])
    numbers = {key: number for key, number in w.items() if key not in KEYS}
    assert numbers == {"size": 6, "nan": 0, "mean": 2.0, "update_l2": 0.1}
    assert (loss["value"], loss["size"]) == (0.5, 1)


def test_stored_reductions(run):
    tensors = {
        reduction_name(name, "w"): np.float32(n) for n, name in enumerate(["l2", "abs_mean"])
    }
    tensors[reduction_name("prod", "v")] = np.float32(1)
    (row,) = _rows(run.collections().step(0, tensors=tensors).trial())
    assert (row["tensor"], row["l2"], row["abs_mean"]) == ("w", 0.0, 1.0)


def test_damage_leaves_a_hole(run):
    run.collections().step(0).step(1).step(2)
    (run.path / event_key(1, "worker_0")).unlink()
    assert [row["step"] for row in _rows(run.trial())] == [0, 2]
