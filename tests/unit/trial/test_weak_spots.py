"""Where smdebug's reader is wrong, a trial is right: one test for each of its weak spots.

The numbers are those of docs/migration.md.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import (
    Captured,
    RunMeta,
    Unreadable,
    event_key,
    index_key,
    write_step,
)
from tocsin.trial import (
    NoMoreData,
    NotARun,
    StepNotYetAvailable,
    StepState,
    StepUnavailable,
    TensorUnavailableForStep,
    create_trial,
    no_refresh,
)


def test_1_a_value_is_not_lost_when_its_shape_is_saved_too(named_sample):
    tensor = named_sample("shapes").trial().tensor("raw_and_shape")
    assert {step: value.tolist() for step, value in tensor.values().items()} == {
        0: [0.0, 1.0, 2.0, 3.0],
        1: [0.0, 1.0, 2.0, 3.0],
    }
    assert tensor.shapes() == {0: (4,), 1: (4,)}


@pytest.mark.parametrize("dtype", ["i1", "i2", "u2", "u4", "u8", "c8", "f4", "i4"])
@pytest.mark.parametrize("shape", [(3,), (0, 2), ()])
def test_2_what_can_be_written_can_be_read(run, dtype, shape):
    value = np.ones(shape, dtype)
    trial = run.collections().step(0, tensors={"x": value}).trial()
    read = trial.tensor("x").value(0)
    assert (read.dtype, read.shape) == (value.dtype, value.shape)
    np.testing.assert_array_equal(read, value)


def test_3_true_checksums_are_read_and_damage_is_seen(run):
    run.collections()
    write_step(
        run.storage,
        step=0,
        mode=Mode.TRAIN,
        mode_step=0,
        tensors=[Captured("good", np.arange(4.0)), Captured("bad", np.arange(4.0))],
        extras=False,
        checksum=True,
    )
    path = run.path / event_key(0, "worker_0")
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    trial = run.trial()
    np.testing.assert_array_equal(trial.tensor("good").value(0), np.arange(4.0))
    with pytest.raises(Unreadable, match=r"tensor bad of step 0 by worker_0: .*checksum"):
        trial.tensor("bad").value(0)


def test_4_the_steps_of_a_tensor_are_complete_when_those_of_the_trial_are(run):
    run.collections(2).step(100, "worker_0", "worker_1")
    run.step(200, "worker_0", mode=Mode.EVAL, mode_step=0)
    trial = run.trial()
    assert trial.steps(Mode.EVAL) == trial.tensor("loss").steps(Mode.EVAL) == []
    assert trial.tensor("loss").steps(Mode.EVAL, show_incomplete_steps=True) == [0]
    run.step(200, "worker_1", mode=Mode.EVAL, mode_step=0)
    assert trial.steps(Mode.EVAL) == trial.tensor("loss").steps(Mode.EVAL) == [0]


def test_5_underscores_in_the_path_leave_worker_names_alone(tmp_path, named_sample):
    path = tmp_path / "_a__b"
    shutil.copytree(named_sample("multi_worker").path, path)
    trial = create_trial(path)
    assert trial.workers() == ["worker_0", "worker_1"]
    assert trial.tensor("loss").workers(0) == ["worker_0", "worker_1"]
    assert trial.tensor("loss").value(0, worker="worker_1").size == 1


def test_5_devices_are_found_by_their_name(run):
    devices = [f"/job:worker/replica:0/task:1/device:XLA_GPU:{n}" for n in (0, 1)]
    run.collections(2, *devices)
    for number, device in enumerate(devices):
        run.step(5, device, tensors={"loss": np.float32(number)})
    trial = run.trial()
    assert trial.workers() == [device.replace("XLA_GPU", "XLA/GPU") for device in devices]
    assert trial.steps() == [5]
    for number, device in enumerate(devices):
        assert trial.tensor("loss").value(5, worker=device).item() == number
        assert trial.tensor("loss").value(5, worker=trial.workers()[number]).item() == number


def test_6_a_trial_goes_on_looking_for_news_after_a_wait_and_after_an_error(run):
    trial = run.collections().step(0).trial()
    trial.wait_for_steps([0])
    run.step(1)
    assert trial.steps() == [0, 1]
    with pytest.raises(ZeroDivisionError), no_refresh(trial):
        1 / 0  # noqa: B018
    run.step(2)
    assert trial.steps() == [0, 1, 2]


def test_7_the_window_counts_steps_and_gives_up_known_ones_only(run):
    run.collections(2).step(0, "worker_0", "worker_1")
    for number in range(1, 11):
        run.step(500 * number, "worker_0")  # and worker_1 is dead
    trial = run.trial(incomplete_step_wait_window=10)
    assert (trial.steps(), trial.last_complete_step) == ([0], 0)
    run.step(5500, "worker_0")
    assert trial.steps() == [0, 500, 1000, 1500, 2000, 2500, 3000]
    assert trial.last_complete_step == 3000


@pytest.mark.parametrize("content", [b"", b'{"meta', b"[]", b'{"meta": {}, "tensor_payload": []}'])
def test_8_a_damaged_index_file_does_not_kill_the_trial(run, content):
    run.collections().step(0).step(1).step(2)
    key = index_key(1, "worker_0")
    good = (run.path / key).read_bytes()
    run.storage.write(key, content)
    trial = run.trial()
    assert trial.steps() == [0, 2]
    assert list(trial.damaged) == [key]
    run.storage.write(key, good)
    assert (trial.steps(), trial.damaged) == ([0, 1, 2], {})
    assert trial.tensor("loss").value(1).item() == 1


def test_8_what_is_being_written_is_left_alone(run):
    run.collections().step(0)
    (run.path / (index_key(1, "worker_0") + ".tmp")).write_text('{"meta": ')
    assert run.trial().steps() == [0]


def test_8_a_late_index_file_is_read(run):
    run.collections().step(10).step(20)
    trial = run.trial()
    assert trial.has_passed_step(5) is StepState.UNAVAILABLE
    run.step(5)
    assert trial.steps() == [5, 10, 20]
    assert trial.tensor("loss").value(5).item() == 5


def test_9_steps_may_be_long(run):
    steps = [9, 10**12 - 1, 10**12, 123456789012345, 2**53]
    run.collections()
    for step in reversed(steps):
        run.step(step)
    trial = run.trial()
    assert trial.steps() == steps
    assert trial.has_passed_step(10**12 + 1) is StepState.UNAVAILABLE
    assert trial.last_complete_step == steps[-1]
    assert all(trial.tensor("loss").value(step).item() == np.float32(step) for step in steps)
    run.step(10**13)
    assert trial.steps() == sorted([*steps, 10**13])
    assert run.trial(range_steps=(10**12, 10**14)).steps() == [10**12, 10**13]


@pytest.mark.parametrize("path", ["nothing", "file", "run/index"])
def test_10_a_wrong_path_raises_at_once(run, time, path):
    run.collections().step(0)
    (run.path.parent / "file").touch()
    with pytest.raises(NotARun, match=f"{path} is not a run.*timeout"):
        create_trial(run.path.parent / path, clock=time.clock())
    assert time.slept == []


def test_10_every_wait_ends(run, time):
    with pytest.raises(NotARun, match=r"is not a run.* after 5 s"):
        run.trial(timeout=5, clock=time.clock())
    assert time.now == 5
    trial = run.collections().step(0).trial(clock=time.clock())
    with pytest.raises(StepNotYetAvailable, match=r"Step 7 of mode TRAIN .* after 2.5 s"):
        trial.wait_for_steps([0, 7], Mode.TRAIN, timeout=2.5)
    assert time.now == 7.5
    (run.path / event_key(0, "worker_0")).unlink()
    slept = time.now
    with pytest.raises(TensorUnavailableForStep, match=r"event file events/.* is missing"):
        trial.tensor("loss").value(0)
    assert time.now == slept


def test_11_a_refresh_looks_only_where_something_changed(run, monkeypatch):
    for step in (1, 1001, 2001):
        run.collections().step(step)
    before = 1_600_000_000
    for folder in (run.path / "index", *(run.path / "index").iterdir()):
        os.utime(folder, (before, before))
    trial = run.trial()
    looked = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or scandir(path))
    assert trial.steps() == [1, 1001, 2001]
    assert looked == []
    run.step(1002)
    assert trial.steps() == [1, 1001, 1002, 2001]
    assert [path.rstrip("/").rpartition("/")[2] for path in looked] == ["000000001"]


def test_13_a_value_is_the_callers_own(run):
    trial = run.collections().step(0, tensors={"a": np.zeros(3), "b": np.ones(40_000)}).trial()
    for name in ("a", "b"):
        first = trial.tensor(name).value(0)
        first += 7
        assert trial.tensor(name).value(0).max() == {"a": 0, "b": 1}[name]


def test_16_the_end_is_told_with_its_step(run):
    trial = run.collections().step(0).step(10).end().trial()
    with pytest.raises(NoMoreData, match=r"step 11 of mode GLOBAL .* step available is 10") as info:
        trial.wait_for_steps([10, 11])
    assert (info.value.step, info.value.mode, info.value.last_step) == (11, Mode.GLOBAL, 10)
    with pytest.raises(StepUnavailable):
        trial.wait_for_steps([5])


def test_16_a_mode_never_seen_has_no_tensors(run):
    trial = run.collections().step(0).trial()
    assert trial.tensor_names(mode=Mode.PREDICT) == []
    assert trial.tensor_names(mode=Mode.TRAIN, step=77) == []
    assert trial.tensor_names(mode=Mode.TRAIN) == ["loss"]


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4), (2, 2, 3, 2)])
def test_17_norms_are_those_of_the_vector(run, shape):
    value = np.arange(-12.0, 12.0).reshape(shape)
    tensor = run.collections().step(0, tensors={"w": value}).trial().tensor("w")
    assert tensor.reduction_value(0, "l1") == np.abs(value).sum()
    assert tensor.reduction_value(0, "l2") == pytest.approx(np.sqrt((value**2).sum()))
    assert tensor.reduction_value(0, "l2", abs=True) == pytest.approx(np.sqrt((value**2).sum()))


def test_holes_in_workers_do_not_hide_what_the_others_saved(named_sample):
    tensor = named_sample("multi_worker").trial().tensor("loss")
    assert list(tensor.values(worker="worker_0")) == [0, 5, 10, 20, 30, 40]
    assert list(tensor.values(worker="worker_1")) == [0, 5, 10, 30]
    assert tensor.workers(20) == ["worker_0"]


def test_our_own_runs_tell_when_a_step_is_complete(run):
    """Worker 1 skips step 10; its next index file says so, before the last worker gets there."""
    run.collections(2)
    run.step(0, meta=RunMeta("r")).step(0, "worker_1", meta=RunMeta("r"))
    run.step(10, meta=RunMeta("r", 0)).step(20, meta=RunMeta("r", 10))
    trial = run.trial()
    assert trial.steps() == [0]
    run.step(30, "worker_1", meta=RunMeta("r", 0))
    assert trial.steps() == [0, 10, 20]
    assert trial.has_passed_step(30) is StepState.NOT_YET_AVAILABLE
    assert trial.has_passed_step(10) is StepState.AVAILABLE
