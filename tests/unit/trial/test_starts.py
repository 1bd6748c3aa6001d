"""A trial of a run into which the job was started several times."""

from __future__ import annotations

import os

import pytest
from tocsin.model import Mode
from tocsin.tensors import END_MARKER, RunMeta, RunWriter, index_key


def start(run, run_id, steps, *workers, resumed=None, began=None, tensors=None):
    before = None
    for step in steps:
        meta = RunMeta(run_id, before, resumed, started=began)
        run.step(step, *workers, meta=meta, tensors=tensors or {"loss": 1.0})
        before = step
    return run


def tens(last, first=0):
    return range(first, last + 1, 10)


def test_the_last_start_alone(run):
    start(run.collections(), "a", tens(100), tensors={"old": 1.0})
    start(run, "b", tens(50))
    trial = run.trial()
    assert trial.steps() == list(tens(50))
    assert trial.tensor_names() == ["loss"]
    assert trial.last_complete_step == 50
    assert trial.steps(Mode.TRAIN) == list(tens(50))


def test_a_start_that_resumed_keeps_what_was_before(run):
    start(run.collections(), "a", tens(100), tensors={"loss": 1.0})
    start(run, "b", tens(80, 60), resumed=50, tensors={"loss": 2.0})
    trial = run.trial()
    assert trial.steps() == list(tens(80))
    values = [trial.tensor("loss").value(step).item() for step in trial.steps()]
    assert values == [1.0] * 6 + [2.0] * 3


def test_a_trial_that_is_open_follows_the_last_start(run):
    start(run.collections(), "a", tens(50), tensors={"old": 1.0})
    trial = run.trial()
    assert trial.steps() == list(tens(50))
    start(run, "b", [0])
    assert (trial.steps(), trial.tensor_names()) == ([0], ["loss"])
    assert trial.last_complete_step == 0
    start(run, "b", tens(70))
    assert (trial.steps(), trial.tensor_names()) == (list(tens(70)), ["loss"])
    start(run, "c", tens(90, 70), resumed=60)
    assert trial.steps() == list(tens(90))


def test_all_workers_alike(run):
    both = ("worker_0", "worker_1")
    start(run.collections(2), "a", tens(50), *both)
    start(run, "b", tens(10), "worker_0")
    trial = run.trial()
    assert trial.steps() == []  # the other worker may still come
    assert trial.workers() == ["worker_0", "worker_1"]
    start(run, "b", tens(10), "worker_1")
    assert trial.steps() == [0, 10]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [((None, 30), [0, 10, 20]), ((20, None), list(tens(50, 20))), ((40, 90), [40, 50])],
)
def test_a_part_of_the_run(run, steps, expected):
    start(run.collections(), "a", tens(100))
    start(run, "b", tens(50))
    assert run.trial(range_steps=steps).steps() == expected


def end(run, run_id, at):
    RunWriter(run.storage, run_id=run_id).close()
    os.utime(run.path / END_MARKER, (at, at))


def written(run, step, at):
    os.utime(run.path / index_key(step, "worker_0"), (at, at))


def test_the_marker_of_an_earlier_start_ends_nothing(run):
    start(run.collections(), "a", [0, 10])
    end(run, "a", 2e9)
    start(run, "b", [0])
    written(run, 0, 2e9 + 1)
    trial = run.trial()
    assert (trial.steps(), trial.loaded_all_steps) == ([0], False)
    start(run, "b", [0, 10, 20])
    assert (trial.steps(), trial.loaded_all_steps) == ([0, 10, 20], False)
    end(run, "b", 2e9 + 2)
    assert trial.loaded_all_steps


def test_a_resumed_start_with_nothing_left_to_do(run):
    start(run.collections(), "a", [0, 10])
    written(run, 10, 2e9)
    end(run, "b", 2e9 + 1)
    assert run.trial().loaded_all_steps
