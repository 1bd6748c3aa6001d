"""Questions to a run."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import Mode
from tocsin.tensors import BadPattern, Collection, event_key
from tocsin.trial import (
    NoMoreData,
    NotARun,
    StepNotYetAvailable,
    StepState,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
    no_refresh,
)

NAMES = ("fc/bias", "fc/weight", "gradient/fc/weight", "loss")


@pytest.fixture
def trial(run):
    run.collections(
        collections=[
            Collection("weights", include_regex=("^(?!gradient).*weight",)),
            Collection("losses", tensor_names=("loss", "never_saved")),
            Collection("none"),
        ]
    )
    run.step(0, tensors=dict.fromkeys(NAMES, 1.0))
    run.step(10, tensors={"loss": 2.0}, mode_step=1)
    run.step(20, tensors={"accuracy": 0.5, "loss": 3.0}, mode=Mode.EVAL, mode_step=0)
    return run.end().trial()


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({}, ["accuracy", *NAMES]),
        ({"show_prefixed_tensors": True}, ["accuracy", *NAMES]),
        ({"mode": Mode.TRAIN}, [*NAMES]),
        ({"mode": Mode.EVAL}, ["accuracy", "loss"]),
        ({"mode": Mode.PREDICT}, []),
        ({"step": 10}, ["loss"]),
        ({"step": 1}, []),
        ({"step": 1, "mode": Mode.TRAIN}, ["loss"]),
        ({"step": 0, "mode": Mode.EVAL}, ["accuracy", "loss"]),
        ({"regex": "weight"}, ["fc/weight", "gradient/fc/weight"]),
        ({"regex": ["^loss$", "bias"]}, ["fc/bias", "loss"]),
        ({"regex": "^weight"}, []),
        ({"regex": "l", "mode": Mode.EVAL}, ["loss"]),
        ({"regex": []}, []),
        ({"collection": "weights"}, ["fc/weight"]),
        ({"collection": "losses"}, ["loss"]),
        ({"collection": "losses", "step": 20}, ["loss"]),
        ({"collection": Collection("x", ("^acc",))}, ["accuracy"]),
        ({"collection": "none"}, []),
        ({"collection": "nowhere"}, []),
    ],
)
def test_names_of_tensors(trial, question, names):
    assert trial.tensor_names(**question) == names


def test_bad_questions_for_names(trial):
    with pytest.raises(ValueError, match="not both"):
        trial.tensor_names(regex="a", collection="b")
    with pytest.raises(BadPattern, match=r"'\(' is not a regular expression"):
        trial.tensor_names(regex="(")


def test_collections(trial):
    assert list(trial.collections()) == ["weights", "losses", "none"]
    assert trial.collection("losses").tensor_names == ("loss", "never_saved")
    assert trial.collection("nowhere") == Collection("nowhere")


def test_steps_and_modes(trial):
    assert (trial.steps(), trial.steps(Mode.TRAIN)) == ([0, 10, 20], [0, 1])
    assert trial.modes() == [Mode.TRAIN, Mode.EVAL]
    assert (trial.mode(10), trial.mode_step(10)) == (Mode.TRAIN, 1)
    assert trial.mode_modestep(20) == (Mode.EVAL, 0)
    assert (trial.mode(5), trial.mode_step(5), trial.mode_modestep(5)) == (None, None, (None, None))
    assert trial.global_step(Mode.TRAIN, 1) == 10
    assert trial.global_step(Mode.GLOBAL, 77) == 77
    assert trial.global_step(Mode.EVAL, 1) is None
    trial.steps().clear()
    assert trial.steps() == [0, 10, 20]


def test_tensors(trial):
    assert trial.has_tensor("loss")
    assert not trial.has_tensor("Loss")
    assert trial.tensor("loss") is trial.tensor("loss")
    assert repr(trial.tensor("loss")).startswith("Tensor('loss', Trial('")
    with pytest.raises(
        TensorUnavailable, match=r"^Tensor Loss was not saved\. Did you mean loss\?$"
    ):
        trial.tensor("Loss")


@pytest.mark.parametrize(
    ("saved", "found"),
    [
        (["CrossEntropyLoss_output_0"], "CrossEntropyLoss_output_0"),
        (["loss", "other_loss"], "loss"),
        (["loss_1", "loss_2"], None),
        ([], None),
    ],
)
def test_the_only_loss_is_found_as_loss(run, saved, found):
    run.collections(collections=[Collection("losses", tensor_names=tuple(saved))])
    run.step(0, tensors={"weight": 1.0, **dict.fromkeys(saved, 2.0)})
    trial = run.end().trial()
    if found is None:
        with pytest.raises(TensorUnavailable, match="loss"):
            trial.tensor("loss")
    else:
        assert trial.tensor("loss").name == found
    assert trial.has_tensor("loss") is ("loss" in saved)


def test_numbered_tensors(run):
    tensors = {f"{kind}_{n}": float(n) for kind in ("in", "labels", "predictions") for n in (10, 9)}
    run.collections(collections=[Collection("inputs", ("^in_",))])
    trial = run.step(7, mode_step=0, tensors=tensors).trial()
    for values in (trial.inputs(7), trial.labels(7), trial.predictions(0, Mode.TRAIN)):
        assert [value.item() for value in values] == [9.0, 10.0]
    assert trial.inputs(8) == []


def test_waiting_for_steps(run, time):
    trial = run.collections(2).step(0, "worker_0", "worker_1").trial(clock=time.clock())
    time.at(2, lambda: run.step(10))
    time.at(4, lambda: run.step(10, "worker_1"))
    time.at(6, lambda: run.step(25).step(25, "worker_1"))
    with no_refresh(trial):  # a wait looks for news all the same
        trial.wait_for_steps([0, 10], timeout=60)
        assert time.now == 4
        assert trial.has_passed_step(25) is StepState.NOT_YET_AVAILABLE
        with pytest.raises(StepUnavailable, match="Step 20 of mode TRAIN is not available"):
            trial.wait_for_steps([10, 20], Mode.TRAIN)
        assert time.now == 6
        assert trial.dynamic_refresh is False
    time.at(9, run.end)
    with pytest.raises(NoMoreData, match="Max step available is 25"):
        trial.wait_for_steps([30])
    assert time.now == 9


def test_a_wait_for_what_is_there_does_not_sleep(run, time):
    trial = run.collections().step(0).trial(clock=time.clock())
    trial.wait_for_steps([0], timeout=0)
    trial.wait_for_steps([])
    assert time.slept == []


def test_an_empty_run_that_ended(run):
    trial = run.collections().end().trial()
    assert (trial.steps(), trial.tensor_names(), trial.last_complete_step) == ([], [], -1)
    with pytest.raises(NoMoreData, match="Max step available is -1"):
        trial.wait_for_steps([0])


def test_a_mode_step_saved_twice_is_the_first_one(run):
    run.collections().step(0, mode_step=0).step(5, mode_step=0)
    trial = run.trial()
    assert (trial.steps(Mode.TRAIN), trial.global_step(Mode.TRAIN, 0)) == ([0], 0)
    np.testing.assert_array_equal(trial.tensor("loss").value(5), np.float32(5))


def test_what_is_private_in_smdebug_and_used_all_the_same(trial):
    assert trial._global_to_mode[20] == (Mode.EVAL, 0)
    assert dict(trial._global_to_mode) == {
        0: (Mode.TRAIN, 0),
        10: (Mode.TRAIN, 1),
        20: (Mode.EVAL, 0),
    }
    with pytest.raises(KeyError):
        trial._global_to_mode[5]
    assert {mode: dict(steps) for mode, steps in trial._mode_to_global.items()} == {
        Mode.TRAIN: {0: 0, 1: 10},
        Mode.EVAL: {0: 20},
    }
    assert trial.worker_set == {"worker_0"}
    assert trial.job_finished()


def test_every_wait_ends(run, time):
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
