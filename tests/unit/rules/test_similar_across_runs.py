from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.amazon.similar_across_runs import SimilarAcrossRuns

from tests.unit.rules.judging import made

OK, BAD, NONE = Outcome.HEALTHY, Outcome.VIOLATION, Outcome.NOT_APPLICABLE
NAN = float("nan")
rule = partial(made, "SimilarAcrossRuns", other_trials="j0")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.fixture
def beside(make_step: MakeStep) -> Callable[..., Step]:
    """A step with these tensors, and what other runs have at it."""

    def make(here: Mapping[str, Any], **others: Mapping[str, Any]) -> Step:
        step = make_step("tensors", 7, here)
        return replace(
            step,
            others={run: make_step("tensors", 7, found).tensors for run, found in others.items()},
        )

    return make


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        pytest.param({"loss": 0.5}, {"loss": 0.5}, OK, id="the same"),
        pytest.param({"loss": 0.5}, {"loss": 0.5 + 1e-9}, OK, id="close"),
        pytest.param({"loss": 0.5}, {"loss": 0.5001}, BAD, id="different"),
        pytest.param({"loss": 0.0}, {"loss": 1e-9}, OK, id="close to zero"),
        pytest.param({"loss": NAN}, {"loss": NAN}, OK, id="both NaN"),
        pytest.param({"loss": NAN}, {"loss": 0.5}, BAD, id="one NaN"),
        pytest.param({"w": [1.0, 2.0]}, {"w": [1.0, 2.1]}, BAD, id="one element"),
        pytest.param({"w": [1.0, 2.0]}, {"w": [1.0, 2.0, 3.0]}, BAD, id="size"),
        pytest.param({"w": [1.0, 2.0]}, {"w": [2.0, 1.0]}, OK, id="another order"),
        pytest.param({"w": [1, 2]}, {"w": [1.0, 2.0]}, OK, id="another type"),
        pytest.param({"w": np.array(3)}, {"w": np.array(4)}, BAD, id="integers, 0-d"),
        pytest.param({"w": []}, {"w": []}, OK, id="empty"),
        pytest.param({"a": 1.0, "w": 1.0}, {"b": 2.0, "w": 1.0}, OK, id="only in one run"),
        pytest.param({"a": 1.0}, {"b": 2.0}, NONE, id="nothing in common"),
        pytest.param({}, {"b": 2.0}, NONE, id="nothing here"),
        pytest.param({"w": TensorSummary()}, {"w": 1.0}, OK, id="unknown"),
    ],
)
def test_two_runs(beside: Any, here: Any, there: Any, expected: Outcome) -> None:
    state, verdict = rule().evaluate({}, beside(here, j0=there))
    assert (state, verdict.outcome) == ({}, expected)


def test_tolerances(beside: Any) -> None:
    step = beside({"w": [1.0, 2.0]}, j0={"w": [1.0, 2.1]})
    assert rule(rtol="0.2").evaluate({}, step)[1].outcome is OK
    assert rule(rtol="0", atol="0.2").evaluate({}, step)[1].outcome is OK
    assert rule(rtol="0", atol="0.01").evaluate({}, step)[1].outcome is BAD
    swapped = beside({"w": [1.0, 2.0]}, j0={"w": [2.0, 1.0]})
    assert rule(rtol="0", atol="0").evaluate({}, swapped)[1].outcome is BAD


def test_the_most_different_of_all_runs_is_reported(beside: Any) -> None:
    step = beside({"a": 1.0, "b": 1.0}, j0={"a": 1.1, "b": 1.0}, j1={"a": 1.0, "b": 2.0})
    _, verdict = rule(other_trials="j0,j1,j2").evaluate({}, step)
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.DIFFERENT, "b", "worker_0")
    found = dict(verdict.evidence)
    assert (found["mean"], found["other_mean"], found["run"]) == (1.0, 2.0, "j1")
    assert next(iter(found)) == "times_tolerance"
    assert verdict.detail == (
        "b differs from j1: size 1 mean 1 norm 1 here, size 1 mean 2 norm 2 there"
    )


def test_workers_are_compared_each_with_its_own(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    def at(*values: float) -> Step:
        tensors = [
            make_tensor("w", value, worker=f"worker_{rank}") for rank, value in enumerate(values)
        ]
        return make_step("tensors", 0, tensors)

    step = replace(at(1.0, 2.0), others={"j0": at(1.0, 2.0).tensors})
    assert rule().evaluate({}, step)[1].outcome is OK
    step = replace(at(1.0, 2.0), others={"j0": at(1.0, 3.0).tensors})
    assert rule().evaluate({}, step)[1].worker == "worker_1"
    step = replace(at(1.0, 2.0), others={"j0": at(1.0).tensors})
    assert rule().evaluate({}, step)[1].outcome is OK


def test_a_step_that_the_other_run_lacks(beside: Any) -> None:
    _, verdict = rule().evaluate({}, beside({"w": 1.0}))
    assert verdict.outcome is NONE


def test_reads_the_other_runs() -> None:
    assert rule(other_trials="j0, s3://bucket/j1").reads().runs == ("j0", "s3://bucket/j1")


def test_says_that_it_needs_another_run(beside: Any) -> None:
    _, verdict = SimilarAcrossRuns().evaluate({}, beside({"w": 1.0}, j0={"w": 2.0}))
    assert verdict.outcome is NONE
    assert verdict.detail.startswith("parameter other_trials is missing")
