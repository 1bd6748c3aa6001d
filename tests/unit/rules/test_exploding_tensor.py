from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary
from tocsin.rules import BadRule, Read, Step, Tensor, build
from tocsin.rules.exploding_tensor import ExplodingTensor

NAN, INF = float("nan"), float("inf")
HEALTHY, VIOLATION, NOT_APPLICABLE = (
    Outcome.HEALTHY,
    Outcome.VIOLATION,
    Outcome.NOT_APPLICABLE,
)

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("content", "only_nan", "expected"),
    [
        ([1.0, 2.0], False, HEALTHY),
        ([1.0, NAN], False, VIOLATION),
        ([1.0, NAN], True, VIOLATION),
        ([1.0, INF], False, VIOLATION),
        ([1.0, -INF], False, VIOLATION),
        ([1.0, -INF], True, HEALTHY),
        ([NAN, NAN], False, VIOLATION),
        ([NAN, INF], True, VIOLATION),
        (NAN, False, VIOLATION),
        (1.0, False, HEALTHY),
        ([], False, HEALTHY),
        (np.zeros((0, 3), np.float32), False, HEALTHY),
        (np.zeros((2, 0)), True, HEALTHY),
        (np.array([1, 2], np.int64), False, HEALTHY),
        (np.array([True]), False, HEALTHY),
        (np.array([65504, 0], np.float16) * np.float16(1), False, HEALTHY),
        (np.array([1 + 1j, complex(NAN, 0)]), False, VIOLATION),
        (np.array(["text"]), False, NOT_APPLICABLE),
        (TensorSummary(), False, NOT_APPLICABLE),
        (TensorSummary(size=0), False, NOT_APPLICABLE),
        (TensorSummary(mean=1.0), False, NOT_APPLICABLE),
        (TensorSummary(nan=0), False, HEALTHY),
        (TensorSummary(nan=0, posinf=2), False, VIOLATION),
    ],
)
def test_one_tensor(make_step: MakeStep, content: Any, only_nan: bool, expected: Outcome) -> None:
    rule = ExplodingTensor(only_nan=only_nan)
    state, verdict = rule.evaluate({}, make_step("tensors", 0, {"w": content}))
    assert verdict.outcome is expected
    assert state == {}


def test_fires_at_exactly_the_steps_with_nan(make_step: MakeStep) -> None:
    history = {0: [NAN], 1: [1.0], 2: [2.0, NAN], 7: [3.0]}
    rule = ExplodingTensor()
    fired = [
        at
        for at, values in history.items()
        if rule.evaluate({}, make_step("tensors", at, {"w": values}))[1].violation
    ]
    assert fired == [0, 2]


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_is_watched(make_step: MakeStep, mode: Mode) -> None:
    step = make_step("tensors", 9, {"w": [NAN]}, mode=mode, mode_step=0)
    assert ExplodingTensor().evaluate({}, step)[1].violation


@pytest.mark.parametrize(
    ("content", "detail", "evidence"),
    [
        (
            [NAN, NAN, 1.0],
            "2 NaN among the 3 values of w",
            {"nan": 2, "infinite": 0, "size": 3},
        ),
        (
            [INF, -INF, 1.0],
            "2 infinite among the 3 values of w",
            {"infinite": 2, "nan": 0, "size": 3},
        ),
        (
            [NAN, INF],
            "1 NaN and 1 infinite among the 2 values of w",
            {"nan": 1, "infinite": 1, "size": 2},
        ),
        (
            TensorSummary(nan=1, posinf=0, neginf=0),
            "1 NaN among the values of w",
            {"nan": 1, "infinite": 0},
        ),
    ],
)
def test_says_what_was_found(
    make_step: MakeStep, content: Any, detail: str, evidence: dict[str, int]
) -> None:
    _, verdict = ExplodingTensor().evaluate({}, make_step("tensors", 0, {"w": content}))
    assert verdict.reason is Reason.NOT_FINITE
    assert verdict.detail == detail
    assert list(verdict.evidence.items()) == list(evidence.items())  # what was found comes first


def test_names_the_first_bad_tensor_and_its_worker(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    found = [
        make_tensor("a", TensorSummary()),
        make_tensor("a", [1.0], worker="worker_1"),
        make_tensor("b", [INF], worker="worker_1"),
        make_tensor("c", [NAN], worker="worker_2"),
    ]
    _, verdict = ExplodingTensor().evaluate({}, make_step("tensors", 3, found))
    assert (verdict.tensor, verdict.worker) == ("b", "worker_1")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ExplodingTensor(), NOT_APPLICABLE),
        (ExplodingTensor(tensor_regex=("trees/",)), VIOLATION),
        (ExplodingTensor(collection_names=("trees",)), VIOLATION),
    ],
)
def test_trees_are_watched_only_when_named(
    make_step: MakeStep, make_tensor: MakeTensor, rule: ExplodingTensor, expected: Outcome
) -> None:
    tree = make_tensor("trees/0", [NAN], role=Role.TREE)
    assert rule.evaluate({}, make_step("tensors", 0, [tree]))[1].outcome is expected


def test_nothing_saved_is_not_healthy(make_step: MakeStep) -> None:
    _, verdict = ExplodingTensor().evaluate({}, make_step("tensors", 0, {}))
    assert (verdict.outcome, verdict.reason) == (NOT_APPLICABLE, Reason.NO_TENSOR)


def test_reads_every_tensor_unless_some_are_named() -> None:
    fields = ("size", "nan", "posinf", "neginf")
    assert ExplodingTensor().reads().tensors == {"tensors": Read(fields=fields)}
    named = ExplodingTensor(collection_names=("weights",), tensor_regex=("fc",))
    assert named.reads().tensors == {
        "tensors": Read(collections=("weights",), regex=("fc",), fields=fields)
    }


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, ExplodingTensor()),
        ({"only_nan": "True"}, ExplodingTensor(only_nan=True)),
        ({"only_nan": "False"}, ExplodingTensor()),
        ({"only_nan": True}, ExplodingTensor(only_nan=True)),
        (
            {"tensor_regex": "relu.*, tanh", "collection_names": "weights"},
            ExplodingTensor(("weights",), ("relu.*", "tanh")),
        ),
        ({"tensor_regex": ["w{1,2}"]}, ExplodingTensor(tensor_regex=("w{1,2}",))),
        ({"tensor_regex": "", "collection_names": []}, ExplodingTensor()),
        ({"base_trial": "s3://b/j", "rule_to_invoke": "ExplodingTensor"}, ExplodingTensor()),
    ],
)
def test_parameters_as_on_the_wire(
    parameters: dict[str, Any], expected: ExplodingTensor, profile: str
) -> None:
    expected = replace(expected, lenient=profile == "recommended")
    assert build("ExplodingTensor", parameters, profile) == (expected, {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"only_nan": "maybe"}, "parameter only_nan: expected `bool`"),
        ({"tensor_regex": [1]}, "parameter tensor_regex: expected `str`"),
        ({"only_nans": "True"}, "did you mean only_nan?"),
    ],
)
def test_refused_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule, match=r"^ExplodingTensor: ") as caught:
        build("ExplodingTensor", parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "role", "kind", "value", "lenient", "strict"),
    [
        ("gradient/w", Role.GRADIENT, None, INF, VIOLATION, VIOLATION),  # no loss says otherwise
        ("weight", Role.WEIGHT, None, INF, VIOLATION, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", -INF, HEALTHY, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", INF, VIOLATION, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", NAN, VIOLATION, VIOLATION),
        ("relu0_input_0", Role.ACTIVATION_INPUT, "relu", -INF, VIOLATION, VIOLATION),
        ("causal_mask", None, None, -INF, HEALTHY, VIOLATION),
        ("input_0", Role.INPUT, None, NAN, NOT_APPLICABLE, VIOLATION),
        ("labels", Role.LABEL, None, NAN, NOT_APPLICABLE, VIOLATION),
    ],
)
def test_what_healthy_runs_hold(
    make_step: MakeStep,
    make_tensor: MakeTensor,
    name: str,
    role: Role | None,
    kind: str | None,
    value: float,
    lenient: Outcome,
    strict: Outcome,
) -> None:
    step = make_step("tensors", 0, [replace(make_tensor(name, [1.0, value], role=role), kind=kind)])
    assert ExplodingTensor().evaluate({}, step)[1].outcome is lenient
    assert ExplodingTensor(lenient=False).evaluate({}, step)[1].outcome is strict
    assert ExplodingTensor(tensor_regex=(".*",)).evaluate({}, step)[1].outcome is strict


def test_gradients_that_overflow_again_and_again(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    """Loss scaling skips some steps; an evaluation in between changes nothing."""
    rule, fired = ExplodingTensor(patience=3), []
    state: Any = {}
    for at, content in enumerate(([INF], [INF], [1.0], [INF], None, [NAN], [INF], [INF])):
        loss = make_tensor("loss", 0.5, role=Role.LOSS)
        found = [] if content is None else [make_tensor("grad/w", content, role=Role.GRADIENT)]
        state, verdict = rule.evaluate(state, make_step("tensors", at, [*found, loss]))
        fired += [at] * verdict.violation
    assert fired == [6, 7]
    assert state == {"saves": 3}


def test_patience_is_at_least_one() -> None:
    with pytest.raises(BadRule, match="patience is 0, but must be at least 1"):
        build("ExplodingTensor", {"patience": "0"})
