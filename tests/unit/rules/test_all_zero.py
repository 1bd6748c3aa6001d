from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.layers.all_zero import AllZero

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made

NAN = float("nan")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("content", "threshold", "expected"),
    [
        ([0.0, 0.0], "100", VIOLATION),
        ([0.0, 1e-300], "100", HEALTHY),
        ([0.0, 1.0], "50", VIOLATION),  # at the threshold
        ([0.0, 1.0], "50.1", HEALTHY),
        ([-0.0, 0.0], "100", VIOLATION),
        (0.0, "100", VIOLATION),
        (np.zeros((2, 3), np.int8), "100", VIOLATION),
        (np.array([False]), "100", VIOLATION),
        ([NAN, 0.0], "100", HEALTHY),
        ([NAN], "100", HEALTHY),
        ([], "100", NOT_APPLICABLE),
        (np.array(["text"]), "100", NOT_APPLICABLE),
        (TensorSummary(size=3), "100", NOT_APPLICABLE),
        (TensorSummary(zeros=3), "100", NOT_APPLICABLE),
        (TensorSummary(size=3, zeros=3), "100", VIOLATION),
    ],
)
def test_one_tensor(make_step: MakeStep, content: Any, threshold: str, expected: Outcome) -> None:
    rule = made("AllZero", "sagemaker", tensor_regex="a", threshold=threshold)
    state, verdict = rule.evaluate({}, make_step("tensors", 0, {"a": content}))
    assert (state, verdict.outcome) == ({}, expected)


def test_reports_the_largest_share(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    found = [
        make_tensor("a", [0.0, 0.0, 1.0]),
        make_tensor("b", [0.0, 0.0, 0.0, 1.0]),
        make_tensor("c", [1.0]),
    ]
    rule = AllZero(tensor_regex=(".",), threshold=50.0)
    _, verdict = rule.evaluate({}, make_step("tensors", 0, found))
    assert (verdict.tensor, verdict.reason) == ("b", Reason.CONSTANT)
    assert verdict.detail == "75 % of the 4 elements of b are zero"
    assert dict(verdict.evidence) == {"percent": 75.0, "threshold": 50.0, "size": 4}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((3,), NOT_APPLICABLE), ((), NOT_APPLICABLE), ((2, 3), VIOLATION), ((2, 1, 3, 3), VIOLATION)],
)
def test_unasked_it_watches_weights_between_layers(
    make_step: MakeStep, make_tensor: MakeTensor, shape: tuple[int, ...], expected: Outcome
) -> None:
    step = make_step("tensors", 0, [make_tensor("w", np.zeros(shape), role=Role.WEIGHT)])
    assert AllZero().evaluate({}, step)[1].outcome is expected


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ((), VIOLATION),
        (("gradient/v", "gradient/w"), VIOLATION),
        (("gradient/v",), HEALTHY),
        (("gradient/another",), VIOLATION),
    ],
)
def test_a_weight_that_nothing_is_computed_with(
    make_tensor: MakeTensor, gradients: tuple[str, ...], expected: Outcome
) -> None:
    """As the deviation of continuous actions, where actions are discrete."""
    weights = tuple(
        make_tensor(name, np.full((1, 2), value), role=Role.WEIGHT)
        for name, value in (("v", 1.0), ("w", 0.0))
    )
    others = tuple(make_tensor(name, np.ones((1, 2)), role=Role.GRADIENT) for name in gradients)
    step = Step(0, Mode.TRAIN, 0, 0.0, {"tensors": weights, "gradients": others})
    assert AllZero().evaluate({}, step)[1].outcome is expected
