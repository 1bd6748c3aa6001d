"""On the runs that smdebug wrote, a trial says what smdebug's reader says, but for its mistakes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import content_bytes, index_at, open_storage
from tocsin.trial import StepState, snapshot

# (run, tensor) -> what it is in truth. The numbers are those of docs/migration.md.
TRUTH: dict[tuple[str, str], tuple[str, list[int], list[Any] | None]] = {
    ("shapes", "raw_and_shape"): ("float32", [4], [0.0, 1.0, 2.0, 3.0]),  # 1
    ("dtypes", "i8"): ("int8", [3], [-1, 2, -128]),  # 2, and so are the others
    ("dtypes", "c64"): ("complex64", [1], None),
    ("dtypes", "i16"): ("int16", [2], None),
    ("dtypes", "u16"): ("uint16", [2], None),
    ("dtypes", "u32"): ("uint32", [2], None),
    ("dtypes", "u64"): ("uint64", [2], None),
    ("dtypes", "empty_f32"): ("float32", [0, 3], []),
    ("dtypes", "empty_i32"): ("int32", [0], []),
}


def _digest(value: Any) -> str:
    return hashlib.sha256(content_bytes(value)).hexdigest()


def test_run(sample):
    trial, expected = sample.trial(), sample.expected
    assert trial.num_workers == expected["num_workers"]
    assert trial.workers() == expected["workers"]
    assert trial.loaded_all_steps is expected["loaded_all_steps"]
    assert trial.last_complete_step == expected["last_complete_step"]
    assert trial.tensor_names() == expected["tensor_names"]
    assert not trial.damaged


def test_a_snapshot_knows_the_same(sample):
    storage = open_storage(sample.path)
    trial, now = sample.trial(), snapshot(storage)
    assert (now.num_workers, now.workers()) == (trial.num_workers, trial.workers())
    assert (now.loaded_all_steps, now.damaged) == (trial.loaded_all_steps, {})
    for mode in Mode:
        assert now.steps(mode) == trial.steps(mode)
    for step in now.steps(show_incomplete_steps=True):
        for index in now.index_files(step):
            assert index == index_at(storage, step, index.worker)


def test_steps(sample):
    trial, expected = sample.trial(), sample.expected
    for name, steps in expected["steps_by_mode"].items():
        assert trial.steps(Mode[name]) == steps
    for name, steps in expected["steps_by_mode_incl_incomplete"].items():
        assert trial.steps(Mode[name], show_incomplete_steps=True) == steps


def test_modes(sample):
    trial, expected = sample.trial(), sample.expected
    modes = {Mode[name] for name, _ in expected["global_to_mode"].values()} - {Mode.GLOBAL}
    assert set(trial.modes()) == modes
    for step, (name, mode_step) in expected["global_to_mode"].items():
        assert trial.mode_modestep(int(step)) == (Mode[name], mode_step)
        assert (trial.mode(int(step)), trial.mode_step(int(step))) == (Mode[name], mode_step)
        if Mode[name] is not Mode.GLOBAL:
            assert trial.global_step(Mode[name], mode_step) == int(step)


def test_passed_steps(sample):
    trial, expected = sample.trial(), sample.expected
    for step, state in expected["has_passed_step"].items():
        assert trial.has_passed_step(int(step)) is StepState[state]
    for step, state in expected["has_passed_step_TRAIN"].items():
        assert trial.has_passed_step(int(step), Mode.TRAIN) is StepState[state]


def test_collections(sample):
    trial = sample.trial()
    assert {"all", *trial.collections()} == {"all", *sample.expected["collections"]}
    for name, expected in sample.expected["collections"].items():
        collection = trial.collection(name)
        assert sorted(collection.tensor_names) == sorted(expected["tensor_names"])
        assert list(collection.include_regex) == expected["include_regex"]
        assert trial.tensor_names(collection=name) == expected["matching_saved"]


def test_tensors(sample):
    trial, expected = sample.trial(), sample.expected
    for name, facts in expected["tensors"].items():
        tensor = trial.tensor(name)
        assert tensor.steps() == facts["steps_global"]
        every = tensor.steps(show_incomplete_steps=True)
        assert every == facts["steps_global_incl_incomplete"]
        for mode, steps in facts["steps_by_mode"].items():
            assert tensor.steps(Mode[mode]) == steps
        by_step: dict[int, list[str]] = {}
        for place in facts["values"]:
            step, worker = place.split("|", 1)
            by_step.setdefault(int(step), []).append(worker)
        assert {step: tensor.workers(step) for step in every} == by_step


def test_values(sample):
    trial = sample.trial()
    checked = 0
    for name, facts in sample.expected["tensors"].items():
        if (sample.name, name) in TRUTH:
            continue
        tensor = trial.tensor(name)
        for place, expected in facts["values"].items():
            step, worker = place.split("|", 1)
            mode, mode_step = Mode[expected["mode"]], expected["mode_step"]
            checked += 1
            if "raises" in expected:
                with pytest.raises(Exception, match=f"Value for tensor {name} is") as caught:
                    tensor.value(int(step), worker=worker)
                assert type(caught.value).__name__ == expected["raises"]
                assert caught.value.has_reductions == ("reductions" in expected["message"])
                continue
            value = tensor.value(int(step), worker=worker)
            assert list(value.shape) == expected["shape"]
            assert str(value.dtype) == expected["dtype"]
            assert _digest(value) == expected["sha256"]
            assert value.flags.writeable
            np.testing.assert_array_equal(tensor.value(mode_step, mode, worker), value)
    assert checked or sample.name not in ("torch_mlp", "multi_worker", "dtypes", "reductions")


def test_shapes(sample):
    trial = sample.trial()
    for name, facts in sample.expected["tensors"].items():
        if (sample.name, name) in TRUTH:
            continue
        for place, expected in facts["shapes"].items():
            step, worker = place.split("|", 1)
            if isinstance(expected, list):
                assert list(trial.tensor(name).shape(int(step), worker=worker)) == expected
            else:
                with pytest.raises(Exception, match=f"Shape for tensor {name} is") as caught:
                    trial.tensor(name).shape(int(step), worker=worker)
                assert type(caught.value).__name__ == expected["raises"]


def test_stored_reductions(sample):
    trial = sample.trial()
    for name, facts in sample.expected["tensors"].items():
        tensor = trial.tensor(name)
        for place, expected in facts["reductions"].items():
            step, worker = int(place.split("|")[0]), place.split("|")[1]
            stored = tensor.reduction_values(step, worker=worker)
            assert {f"{'abs_' * absolute}{kind}" for kind, absolute in stored} == set(expected)
            for (kind, absolute), value in stored.items():
                facts_of = expected[f"{'abs_' * absolute}{kind}"]
                assert (str(value.dtype), list(value.shape)) == (
                    facts_of["dtype"],
                    facts_of["shape"],
                )
                assert _digest(value) == facts_of["sha256"]
                one = tensor.reduction_value(step, kind, worker=worker, abs=absolute)
                np.testing.assert_array_equal(one, value)


@pytest.mark.parametrize(("place", "truth"), TRUTH.items(), ids=lambda x: "-".join(map(str, x)))
def test_where_smdebug_is_wrong(named_sample, place, truth):
    sample = named_sample(place[0])
    dtype, shape, content = truth
    value = sample.trial().tensor(place[1]).value(0)
    assert (str(value.dtype), list(value.shape)) == (dtype, shape)
    assert sample.trial().tensor(place[1]).shape(0) == tuple(shape)
    records = json.loads((sample.path.parent / "expected.json").read_text())["records"]
    (record,) = (r for r in records if r["tag"] == place[1] and r["step"] == 0)
    assert _digest(value) == record["content_sha256"]
    if content is not None:
        assert value.reshape(-1).tolist() == content
    said = sample.expected["tensors"][place[1]]["values"]["0|worker_0"]
    assert "raises" in said or said.get("value_is_none") or said["dtype"] != dtype
