"""The real smdebug reads the runs that we write, with our extra keys in them."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    Collection,
    RunWriter,
    open_storage,
    reduction_name,
    summarize,
)

from tests.frameworks.environment import answer

WORKERS = ("worker_0", "worker_1")
STEPS = {0: (Mode.TRAIN, 0), 10: (Mode.TRAIN, 10), 11: (Mode.EVAL, 0), 1000: (Mode.TRAIN, 999)}
READABLE = ["float16", "float32", "float64", "int32", "int64", "uint8", "bool", "complex128"]
EVERY_TEN = {"save_interval": 10, "save_steps": [], "start_step": 0, "end_step": None}
COLLECTIONS = [
    Collection("all", include_regex=(".*",)),
    Collection("losses", tensor_names=("loss",)),
    Collection(
        "weights",
        include_regex=("^layer.*weight",),
        reduction_config={"save_raw_tensor": True, "reductions": "mean", "save_shape": False},
        save_config={mode.name: EVERY_TEN for mode in Mode},
    ),
]


def loss(step, worker):
    return np.float32(1 / (1 + step) + WORKERS.index(worker))


def weight(step, worker):
    return np.random.default_rng([step, WORKERS.index(worker)]).standard_normal((3, 4))


def of_type(dtype, step):
    return (np.arange(6).reshape(2, 3) + step % 7).astype(dtype)


def tensors(step, worker):
    """Raw values of every type, each with a summary; reductions; a shape; a repeated name."""
    raw = weight(step, worker).astype(np.float32)
    yield Captured("loss", np.float32(99))
    yield Captured("loss", loss(step, worker), role="loss", summary=summarize(np.ones(1)))
    yield Captured("layer/ü weight:0", raw, role="weight", kind="Dense", summary=summarize(raw))
    for dtype in READABLE:
        value = of_type(dtype, step)
        yield Captured(f"types/{dtype}", value, summary=summarize(value))
    yield Captured("scalar", 0.25)
    yield Captured("text", ["alpha", "β-gamma", ""])
    yield Captured("zero_d", np.array(step, np.int64))
    yield Captured(reduction_name("mean", "activation"), np.float32(0.5))
    yield Captured(reduction_name("abs_max", "activation"), np.float32(2.5))
    yield Captured("known", shape=(5, 6), dtype="float32", summary=summarize(raw))
    yield Captured("bits", np.array([0x3F80], np.uint16), dtype="bfloat16")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What smdebug sees of a run of two workers and two modes."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    storage = open_storage(folder)
    for worker in WORKERS:
        writer = RunWriter(storage, worker, run_id="0123", resumed_from=0)
        writer.write_collections(COLLECTIONS, len(WORKERS))
        for step, (mode, mode_step) in STEPS.items():
            if (step, worker) != (1000, "worker_1"):
                writer.write(step, mode, mode_step, tensors(step, worker))
        if worker == WORKERS[-1]:
            writer.close()
    return answer("smdebug", "read_smdebug.py", folder)


def _cells(seen, name):
    """``(step, worker) → what smdebug read``."""
    return {
        (int(step), worker): cell
        for step, by_worker in seen["tensors"][name].items()
        for worker, cell in by_worker.items()
    }


def _written():
    return {(s, w) for s in STEPS for w in WORKERS if (s, w) != (1000, "worker_1")}


def test_the_run(seen):
    assert seen["loaded_all_steps"]
    assert (seen["workers"], seen["num_workers"]) == (list(WORKERS), 2)


def test_steps_and_modes(seen):
    assert seen["modes"] == ["EVAL", "TRAIN"]
    assert seen["steps"] == {
        "GLOBAL": [0, 10, 11, 1000],
        "TRAIN": [0, 10, 999],
        "EVAL": [0],
        "PREDICT": [],
    }


def test_names_and_collections(seen):
    named = {"activation", "bits", "known", "layer/ü weight:0", "loss", "scalar", "text", "zero_d"}
    assert set(seen["names"]) == named | {f"types/{dtype}" for dtype in READABLE}
    assert seen["collections"]["losses"] == {"include_regex": [], "tensor_names": ["loss"]}
    assert seen["collections"]["weights"]["include_regex"] == ["^layer.*weight"]
    assert seen["collections"]["weights"]["tensor_names"] == ["layer/ü weight:0"]


def test_scalars(seen):
    """Of a repeated name the last value counts."""
    cells = _cells(seen, "loss")
    assert set(cells) == _written()
    for (step, worker), cell in cells.items():
        assert cell["value"] == {"dtype": "float32", "value": [float(loss(step, worker))]}
    assert all(c["value"]["value"] == [0.25] for c in _cells(seen, "scalar").values())
    assert {at: c["value"]["value"] for at, c in _cells(seen, "zero_d").items()} == {
        at: at[0] for at in _written()
    }


def test_tensors(seen):
    cells = _cells(seen, "layer/ü weight:0")
    assert set(cells) == _written()
    for (step, worker), cell in cells.items():
        expected = weight(step, worker).astype(np.float32)
        assert cell["value"] == {"dtype": "float32", "value": expected.tolist()}
        assert cell["shape"] == [3, 4]


@pytest.mark.parametrize("dtype", READABLE)
def test_types(seen, dtype):
    cells = _cells(seen, f"types/{dtype}")
    assert set(cells) == _written()
    for (step, _), cell in cells.items():
        expected = of_type(dtype, step)
        parts = [expected.real, expected.imag] if expected.dtype.kind == "c" else expected
        assert cell["value"] == {"dtype": dtype, "value": np.asarray(parts).tolist()}


def test_strings(seen):
    cells = _cells(seen, "text")
    assert set(cells) == _written()
    for cell in cells.values():
        assert cell["value"]["value"] == ["alpha", "β-gamma", ""]


def test_reductions(seen):
    cells = _cells(seen, "activation")
    assert set(cells) == _written()
    for cell in cells.values():
        assert cell["reductions"] == {"mean": 0.5, "abs_max": 2.5}
        assert cell["value"] == "TensorUnavailableForStep"


def test_shapes(seen):
    cells = _cells(seen, "known")
    assert set(cells) == _written()
    for cell in cells.values():
        assert cell["shape"] == [5, 6]
        assert cell["value"] == "TensorUnavailableForStep"
