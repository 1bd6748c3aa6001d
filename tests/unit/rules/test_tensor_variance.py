from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Reason, TensorSummary
from tocsin.rules import BadRule, Step, Tensor, build
from tocsin.rules.amazon.tensor_variance import TensorVariance

NAN, INF = float("nan"), float("inf")
ABOVE, BELOW, FINE, NONE = (
    Reason.ABOVE_THRESHOLD,
    Reason.BELOW_THRESHOLD,
    Reason.WITHIN_BOUNDS,
    Reason.NO_TENSOR,
)

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("content", "low", "high", "expected"),
    [
        ([0.0, 2.0], "None", "10", FINE),
        ([0.0, 20.0], "None", "10", ABOVE),
        ([0.0, 2.0], "1", "1", FINE),  # at the bounds
        ([0.0, 2.0], "1.01", "None", BELOW),
        ([0.0, 20.0], "1", "", FINE),
        ([0.0, 20.0], "", "", NONE),
        (5.0, "1e-5", "10", BELOW),
        (5.0, "0", "10", FINE),
        (np.array([0, 20], np.int32), "1e-5", "10", ABOVE),
        (np.array([False, True]), "0.25", "0.25", FINE),
        ([NAN, 0.0, 20.0, INF], "1e-5", "10", ABOVE),  # over what is finite
        ([NAN], "1e-5", "10", NONE),
        ([], "1e-5", "10", NONE),
        (np.array(["text"]), "1e-5", "10", NONE),
        (TensorSummary(mean=1.0), "1e-5", "10", NONE),
        (TensorSummary(variance=11.0), "1e-5", "10", ABOVE),
    ],
)
def test_one_tensor(
    make_step: MakeStep, content: Any, low: str, high: str, expected: Reason
) -> None:
    given = {"tensor_regex": "a", "min_threshold": low, "max_threshold": high}
    for profile in ("recommended", "sagemaker"):
        rule, _ = build("TensorVariance", given, profile)
        state, verdict = rule.evaluate({}, make_step("tensors", 0, {"a": content}))
        assert (state, verdict.reason) == ({}, expected)


def test_reports_the_farthest(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    def varying(**variances: float) -> Step:
        found = [make_tensor(name, TensorSummary(variance=v)) for name, v in variances.items()]
        return make_step("tensors", 0, found)

    rule = TensorVariance(tensor_regex=(".",), max_threshold=10.0, min_threshold=1.0)
    _, verdict = rule.evaluate({}, varying(a=11, b=40, c=5))
    assert (verdict.tensor, verdict.detail) == ("b", "variance 40 of b is above 10")
    assert dict(verdict.evidence) == {"variance": 40, "threshold": 10.0}
    _, verdict = rule.evaluate({}, varying(a=0.5, b=0.1, c=5))
    assert verdict.detail == "variance 0.1 of b is below 1"


def test_the_bounds_must_be_in_order() -> None:
    with pytest.raises(BadRule, match="but must be at most max_threshold, 1"):
        build("TensorVariance", {"min_threshold": "2", "max_threshold": "1"})
