from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Channels, Detail, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import BadRule, Read, Step, Tensor
from tocsin.rules.data.not_normalized_data import NotNormalizedData

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made, valued

LARGE, SMALL, UNEVEN = Reason.OUT_OF_RANGE, Reason.BELOW_THRESHOLD, Reason.IMBALANCED
RNG = np.random.default_rng(0)
WINE_MEANS = [13.0, 2.34, 2.37, 19.5, 99.7, 2.3, 2.03, 0.36, 1.59, 5.06, 0.96, 2.61, 747]
NORMAL = RNG.standard_normal((32, 13))


def inputs(value: Any, *, name: str = "x") -> Tensor:
    if isinstance(value, TensorSummary):
        return Tensor(name, "worker_0", value)
    return valued(name, value, read=Read(detail=Detail(channel_axis=1)))


def step(*found: Tensor) -> Step:
    return Step(0, Mode.TRAIN, 0, 0.0, {"inputs": found})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NORMAL, HEALTHY),
        (NORMAL[:1], HEALTHY),
        (NORMAL * 0.0476, HEALTHY),  # columns of norm 1
        (RNG.random((16, 3, 8, 8)), HEALTHY),
        (RNG.random((16, 8, 8, 3)).astype(np.float16), HEALTHY),
        (RNG.integers(0, 17, (64, 64)) * 1.0, HEALTHY),  # digits
        (np.eye(1000)[RNG.integers(0, 1000, 32)], HEALTHY),  # one-hot
        ((RNG.random((256, 500)) < 0.01) * 1.0, HEALTHY),  # words of a bag
        (RNG.standard_normal((16, 3, 8, 8)) * 65, HEALTHY),  # images without their mean
        (np.column_stack([NORMAL, RNG.uniform(18, 90, 32)]), HEALTHY),  # an age among features
        (np.column_stack([NORMAL, np.ones(32)]), HEALTHY),
        (np.column_stack([NORMAL, np.full(32, 1e-9)]), HEALTHY),  # what is left of a constant
        (np.zeros((4, 5)), HEALTHY),
        (np.array([[0.5]]), HEALTHY),
        (NORMAL * WINE_MEANS, LARGE),
        (NORMAL + 1000, LARGE),
        (NORMAL + 90, LARGE),  # temperatures with an offset
        ((RNG.random((16, 1, 28, 28)) < 0.1) * 255.0, LARGE),  # digits in bytes
        (NORMAL * 1e100, LARGE),
        (RNG.integers(0, 256, (16, 3, 8, 8)) * 1.0, LARGE),
        (RNG.random((16, 3, 8, 8)) / 255, SMALL),
        (NORMAL * 1e-6, SMALL),
        (NORMAL * np.geomspace(1, 3e-6, 13), UNEVEN),
        (NORMAL * ([1.0] * 12 + [1e-4]), HEALTHY),  # a single one, less than a tenth
        (NORMAL[:, :3] * [1.0, 1.0, 2e-5], UNEVEN),
        (RNG.integers(0, 30_000, (8, 128)), NOT_APPLICABLE),  # token ids
        (RNG.integers(0, 256, (8, 3, 4, 4)).astype(np.uint8), NOT_APPLICABLE),
        (np.ones((2, 2), bool), NOT_APPLICABLE),
        (RNG.random(16) * 1000, NOT_APPLICABLE),
        (7000.0, NOT_APPLICABLE),
        (np.zeros((0, 5)), NOT_APPLICABLE),
        (np.full((4, 5), np.nan), NOT_APPLICABLE),
        (np.where(RNG.random((32, 13)) < 0.1, np.nan, NORMAL), HEALTHY),
        (TensorSummary(channels=Channels(1, (0.0, None), (1.0,))), HEALTHY),
        (TensorSummary(mean=1000.0, min=0.0, max=2000.0), NOT_APPLICABLE),
    ],
)
def test_one_input(value: Any, expected: Outcome | Reason) -> None:
    state, verdict = NotNormalizedData().evaluate({}, step(inputs(value)))
    if isinstance(expected, Reason):
        assert verdict.violation
        assert verdict.reason is expected
    else:
        assert verdict.outcome is expected
    assert state == {}


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("input_0", True),
        ("grid", True),
        ("lens", True),
        ("attention_mask", False),
        ("input_ids", False),
        ("seq_len", False),
        ("token-index", False),
        ("step", False),
    ],
)
def test_names_of_inputs_that_are_not_features(name: str, judged: bool) -> None:
    step_of_one = step(inputs(NORMAL * 1000, name=name))
    assert NotNormalizedData().evaluate({}, step_of_one)[1].violation is judged
    assert NotNormalizedData(tensor_regex=(".",)).evaluate({}, step_of_one)[1].violation


@pytest.mark.parametrize(
    ("value", "detail", "evidence"),
    [
        (
            np.full((2, 2), 750.0),
            "a feature of x has a scale of 750, above 75",
            {"scale": 750, "max_scale": 75},
        ),
        (
            np.full((2, 2), -0.002),
            "no value of x is further from 0 than 0.002",
            {"largest_value": 0.002, "min_value": 0.01},
        ),
        (
            np.array([[1.0, 5e-5]]),
            "scales of the features of x differ by a factor of 2e+04",
            {"ratio": pytest.approx(2e4), "max_ratio": 1e4},
        ),
    ],
)
def test_tells_what_is_wrong(value: Any, detail: str, evidence: dict[str, Any]) -> None:
    found = (inputs(NORMAL, name="a"), inputs(value))
    _, verdict = NotNormalizedData().evaluate({}, step(*found))
    assert (verdict.tensor, verdict.detail) == ("x", detail)
    assert dict(verdict.evidence) == evidence


@pytest.mark.parametrize(
    ("labels", "fires"),
    [
        (RNG.normal(180_000, 40_000, (32, 1)), True),  # rents in a small currency
        (RNG.normal(0, 30, (32, 1)), False),
        (RNG.integers(0, 1000, 32), False),  # classes
        (np.eye(10)[RNG.integers(0, 10, 32)], False),
    ],
)
def test_targets(labels: Any, fires: bool) -> None:
    tensors = {"inputs": (inputs(NORMAL),), "targets": (valued("y", labels),)}
    verdict = NotNormalizedData().evaluate({}, Step(0, Mode.TRAIN, 0, 0.0, tensors))[1]
    assert verdict.outcome is (VIOLATION if fires else HEALTHY)
    assert not fires or verdict.detail.startswith("the targets y have a scale of 1.8")


@pytest.mark.parametrize("min_value", [100, 200])
def test_the_bounds_of_scales_must_be_in_order(min_value: float) -> None:
    with pytest.raises(
        BadRule, match=f"min_value is {min_value}.0, but must be below max_scale, 75"
    ):
        made("NotNormalizedData", min_value=min_value)
