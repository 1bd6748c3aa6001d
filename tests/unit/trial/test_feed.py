"""Keeping up with a run."""

from __future__ import annotations

import os

import pytest
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, Collection


def test_news_are_seen_as_they_come(run):
    trial = run.collections().step(0).trial()
    assert not trial.has_tensor("late")
    run.step(1, tensors={"late": 1.0})
    assert trial.has_tensor("late")
    assert trial.tensor("late").value(1).item() == 1
    assert (trial.steps(), trial.mode(2)) == ([0, 1], None)
    run.step(2, mode=Mode.EVAL)
    assert (trial.mode(2), trial.mode_step(2)) == (Mode.EVAL, 2)
    assert trial.global_step(Mode.EVAL, 3) is None
    run.step(3, mode=Mode.EVAL)
    assert trial.global_step(Mode.EVAL, 3) == 3
    assert not trial.loaded_all_steps
    run.end()
    assert trial.loaded_all_steps


def test_a_run_that_ended_is_not_looked_at_again(run):
    trial = run.collections().step(0).end().trial()
    run.step(1)
    assert trial.steps() == [0]
    trial.refresh()
    assert trial.steps() == [0, 1]


def test_looks_are_apart(run, time):
    trial = run.collections().step(0).trial(refresh_interval=10, clock=time.clock())
    run.step(1)
    time.now = 9.9
    assert trial.steps() == [0]
    time.now = 10
    assert trial.steps() == [0, 1]
    run.step(2)
    assert trial.steps() == [0, 1]
    trial.refresh()
    assert trial.steps() == [0, 1, 2]


@pytest.mark.parametrize(
    ("age", "slept"), [(0.25, [0.75]), (0.0, [1.0]), (-100.0, [1.0]), (1.0, []), (1e6, [])]
)
def test_workers_behind_the_one_that_ends_get_a_second(run, time, age, slept):
    run.collections(2).step(0, "worker_0", "worker_1").step(10, "worker_0").end()
    ended = 2e9 - age
    os.utime(run.path / END_MARKER, (ended, ended))
    time.at(slept[0] if slept else 1, lambda: run.step(10, "worker_1"))
    trial = run.trial(clock=time.clock())
    assert time.slept == pytest.approx(slept)
    assert trial.tensor("loss").workers(10) == ["worker_0", "worker_1"][: 1 + len(slept)]
    assert (trial.steps(), trial.last_complete_step) == ([0, 10], 10)


def test_no_second_for_a_run_that_is_even(run, time):
    run.collections(2).step(0, "worker_0").step(10, "worker_0", "worker_1").end()
    os.utime(run.path / END_MARKER, (2e9, 2e9))
    assert run.trial(clock=time.clock()).loaded_all_steps
    assert time.slept == []


def test_collections_that_grow(run):
    """A hook writes them again when tensors come that were not there the first time."""
    run.collections(collections=[Collection("mine", tensor_names=("loss",))])
    trial = run.step(0).trial()
    assert trial.tensor_names(collection="mine") == ["loss"]
    run.collections(collections=[Collection("mine", tensor_names=("loss", "other"))])
    run.step(1, tensors={"other": 1.0})
    assert trial.tensor_names(collection="mine") == ["loss", "other"]


def test_a_run_written_anew_in_the_same_place(run):
    trial = run.collections().step(0, tensors={"loss": 1.0}).step(1).trial()
    assert trial.tensor("loss").value(0).item() == 1.0
    run.step(0, tensors={"loss": 2.0, "more": 3.0})
    assert trial.tensor("more").value(0).item() == 3.0
    assert trial.tensor("loss").value(0).item() == 2.0
