"""Questions to one tensor."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import Mode, TensorSummary
from tocsin.tensors import Captured, RunMeta, Unreadable, event_key, reduction_name, summarize
from tocsin.trial import (
    InvalidWorker,
    ShapeUnavailableForStep,
    StepNotYetAvailable,
    StepUnavailable,
    TensorUnavailableForStep,
)

W = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@pytest.fixture
def two(run):
    """Two workers; step 40 is not complete, and only worker_0 has ``w`` at step 10."""
    run.collections(2)
    run.step(0, "worker_0", "worker_1", tensors={"w": W, "loss": 1.0})
    run.step(10, "worker_0", tensors={"w": W + 1, "loss": 2.0}, mode_step=1)
    run.step(10, "worker_1", tensors={"loss": 3.0}, mode_step=1)
    run.step(20, "worker_0", "worker_1", tensors={"loss": 4.0}, mode=Mode.EVAL, mode_step=0)
    run.step(40, "worker_1", tensors={"loss": 5.0}, mode_step=2)
    return run


@pytest.mark.parametrize(
    ("name", "question", "error"),
    [
        ("w", {"step_num": 5}, StepUnavailable),
        ("w", {"step_num": 5, "mode": Mode.TRAIN}, StepNotYetAvailable),
        ("w", {"step_num": 20}, TensorUnavailableForStep),
        ("w", {"step_num": 30}, StepNotYetAvailable),
        ("w", {"step_num": 40}, StepNotYetAvailable),
        ("w", {"step_num": 50}, StepNotYetAvailable),
        ("w", {"step_num": 0, "mode": Mode.PREDICT}, StepNotYetAvailable),
        ("w", {"step_num": 10, "worker": "worker_1"}, InvalidWorker),
        ("w", {"step_num": 0, "worker": "worker_2"}, InvalidWorker),
        ("w", {"step_num": 0, "worker": ""}, InvalidWorker),
        ("loss", {"step_num": 40, "worker": "worker_0"}, InvalidWorker),
        ("loss", {"step_num": 5, "worker": "worker_0"}, StepUnavailable),
    ],
)
@pytest.mark.parametrize("method", ["value", "shape", "reduction_values", "summary"])
def test_what_is_not_there(two, name, question, error, method):
    with pytest.raises(error) as caught:
        getattr(two.trial().tensor(name), method)(**question)
    assert type(caught.value) is error


@pytest.mark.parametrize("step", [5, 50])
def test_what_is_not_there_once_the_run_has_ended(two, step):
    with pytest.raises(StepUnavailable):
        two.end().trial().tensor("w").value(step)


def test_steps(two):
    tensor = two.trial().tensor("w")
    loss = two.trial().tensor("loss")
    assert (tensor.steps(), tensor.steps(Mode.TRAIN)) == ([0, 10], [0, 1])
    assert (tensor.steps(Mode.EVAL), loss.steps(Mode.EVAL)) == ([], [0])
    assert (loss.steps(), loss.steps(show_incomplete_steps=True)) == ([0, 10, 20], [0, 10, 20, 40])
    assert (loss.prev_steps(15), loss.prev_steps(20), loss.prev_steps(-1)) == (
        [0, 10],
        [0, 10, 20],
        [],
    )
    assert (loss.prev_steps(99, n=2), loss.prev_steps(99, 9)) == ([10, 20], [0, 10, 20])
    assert loss.prev_steps(1, mode=Mode.TRAIN) == [0, 1]


def test_workers(two):
    trial = two.trial()
    assert trial.tensor("w").workers(0) == ["worker_0", "worker_1"]
    assert trial.tensor("w").workers(1, Mode.TRAIN) == ["worker_0"]
    with pytest.raises(TensorUnavailableForStep):
        trial.tensor("w").workers(20)


def test_values(two):
    trial = two.trial()
    loss = trial.tensor("loss")
    assert [loss.value(10, worker=worker).item() for worker in (None, "worker_0", "worker_1")] == [
        2.0,
        2.0,
        3.0,
    ]
    assert loss.value(40).item() == 5.0  # not complete, but there
    assert {step: v.item() for step, v in loss.values().items()} == {0: 1.0, 10: 2.0, 20: 4.0}
    assert {s: v.item() for s, v in loss.values(Mode.TRAIN, "worker_1").items()} == {0: 1.0, 1: 3.0}
    assert list(trial.tensor("w").values(worker="worker_1")) == [0]
    with pytest.raises(InvalidWorker, match="worker_7"):
        loss.values(worker="worker_7")
    assert loss.values(Mode.PREDICT) == {}
    np.testing.assert_array_equal(trial.tensor("w").value(10), W + 1)


def test_the_last_of_several_in_one_file_counts(run):
    captured = [Captured("loss", 1.0), Captured("x", W), Captured("loss", 2.0)]
    trial = run.collections().step(0, captured=captured).trial()
    assert trial.tensor_names() == ["loss", "x"]
    assert trial.tensor("loss").value(0).item() == 2.0


def test_shapes(run):
    run.collections().step(0, captured=[Captured("s", shape=(3, 4), original_name="kernel:0")])
    run.step(1, tensors={"s": W, "t": W})
    trial = run.trial()
    assert trial.tensor("s").shapes() == {0: (3, 4), 1: (2, 3)}
    assert trial.tensor("t").shape(1, Mode.TRAIN, "worker_0") == (2, 3)
    assert (trial.tensor("s").original_name, trial.tensor("t").original_name) == ("kernel:0", None)
    with pytest.raises(TensorUnavailableForStep, match=r"as it was not saved\.$") as caught:
        trial.tensor("s").value(0)
    assert caught.value.has_reductions is False
    with pytest.raises(TensorUnavailableForStep):
        trial.tensor("s").values()


def test_reductions_that_were_stored(run):
    stored = {("mean", False): 7.0, ("mean", True): 8.0, ("std", False): 9.0}
    tensors = {
        reduction_name("abs_" * absolute + kind, "w"): np.float32(value)
        for (kind, absolute), value in stored.items()
    }
    tensor = run.collections().step(0, tensors=tensors).trial().tensor("w")
    assert tensor.reduction_values(0) == stored
    assert [tensor.reduction_value(0, kind, abs=absolute) for kind, absolute in stored] == [7, 8, 9]
    with pytest.raises(TensorUnavailableForStep, match="abs_std of w"):
        tensor.reduction_value(0, "std", abs=True)
    with pytest.raises(TensorUnavailableForStep, match="Its reductions") as caught:
        tensor.value(0)
    assert caught.value.has_reductions is True
    with pytest.raises(ShapeUnavailableForStep, match="Shape for tensor w is not available"):
        tensor.shape(0)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("kind", ["min", "max", "mean", "std", "sum", "prod"])
def test_reductions_of_the_value(run, kind, absolute):
    tensor = run.collections().step(0, tensors={"w": W}).trial().tensor("w")
    value = np.abs(W) if absolute else W
    assert tensor.reduction_value(0, kind, abs=absolute) == getattr(np, kind)(value)
    assert tensor.reduction_values(0) == {}


def test_reductions_of_a_summary(run):
    captured = [Captured("w", shape=W.shape, summary=summarize(W))]
    tensor = run.collections().step(0, captured=captured, meta=RunMeta("r")).trial().tensor("w")
    assert tensor.summary(0) == summarize(W)
    assert tensor.shape(0) == (2, 3)
    for kind in ("min", "max", "mean", "std"):
        assert tensor.reduction_value(0, kind) == pytest.approx(getattr(np, kind)(W))
        assert tensor.reduction_values(0)[kind, False] == tensor.reduction_value(0, kind)
    with pytest.raises(TensorUnavailableForStep, match="prod of w"):
        tensor.reduction_value(0, "prod")
    with pytest.raises(TensorUnavailableForStep, match="its summary were") as caught:
        tensor.value(0)
    assert caught.value.has_reductions is True


def test_no_summary(two):
    assert two.trial().tensor("w").summary(0) is None
    with pytest.raises(ValueError, match="'median' is not a reduction: there are min, max"):
        two.trial().tensor("w").reduction_value(0, "median")


def test_what_one_worker_has_counts(run):
    """The first worker has a summary only, the second the value."""
    meta = RunMeta("r")
    summary = TensorSummary(mean=1.0)
    run.collections(2).step(0, captured=[Captured("w", shape=(2, 3), summary=summary)], meta=meta)
    run.step(0, "worker_1", tensors={"w": W}, meta=meta)
    tensor = run.trial().tensor("w")
    np.testing.assert_array_equal(tensor.value(0), W)
    assert tensor.summary(0) == summary
    with pytest.raises(TensorUnavailableForStep):
        tensor.value(0, worker="worker_0")


@pytest.mark.parametrize("keep", [0, 20, 130, 200])
def test_an_event_file_that_is_cut_short(run, keep):
    trial = run.collections().step(0, tensors={"a": W, "b": W}).trial()
    path = run.path / event_key(0, "worker_0")
    path.write_bytes(path.read_bytes()[:keep])
    if keep >= 130:
        np.testing.assert_array_equal(trial.tensor("a").value(0), W)
    else:
        with pytest.raises(Unreadable, match=r"tensor a of step 0 by worker_0: .*ends before"):
            trial.tensor("a").value(0)
    with pytest.raises(Unreadable, match="tensor b of step 0"):
        trial.tensor("b").values()


def test_a_checksum_that_the_index_names(run):
    run.collections().step(0, tensors={"a": W}, meta=RunMeta("r"))
    path = run.path / event_key(0, "worker_0")
    content = bytearray(path.read_bytes())
    content[content.index(W.tobytes()) + 5] ^= 1
    path.write_bytes(content)
    with pytest.raises(Unreadable, match="does not match the checksum"):
        run.trial().tensor("a").value(0)


def test_devices_are_found_by_their_name(run):
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
