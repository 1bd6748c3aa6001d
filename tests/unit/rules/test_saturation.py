"""The two rules on units that are saturated at both ends: SigmoidSaturation and TanhSaturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.layers.sigmoid_saturation import SigmoidSaturation
from tocsin.rules.layers.tanh_saturation import TanhSaturation

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, valued

Saturation = SigmoidSaturation | TanhSaturation
BOTH_ENDS = np.tile([1.2, -1.2], (64, 8))  # in units of the threshold
RNG = np.random.default_rng(0)


def seen(rule: Saturation, side: str, value: Any) -> Step:
    reads = rule.reads().tensors
    if isinstance(value, TensorSummary):
        tensor = Tensor("act0", "worker_0", value)
    else:
        tensor = valued("act0", value, read=reads[side])
    return Step(0, Mode.TRAIN, 0, 0.0, dict.fromkeys(reads, ()) | {side: (tensor,)})


def normal(deviation: float, units: int = 32, rows: int = 64) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, units)) * deviation


@pytest.fixture(params=[SigmoidSaturation(), TanhSaturation()], ids=["sigmoid", "tanh"])
def rule(request: pytest.FixtureRequest) -> Saturation:
    made: Saturation = request.param
    return made


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (normal(0.3), HEALTHY),
        (normal(1.7), HEALTHY),
        (normal(10), VIOLATION),
        (BOTH_ENDS, VIOLATION),
        (BOTH_ENDS * 0.82, HEALTHY),
        (BOTH_ENDS[:, :7], HEALTHY),  # so few units may be the output
        (np.abs(BOTH_ENDS), HEALTHY),  # all at one end may be the output, too
        (np.concatenate([BOTH_ENDS, np.zeros((64, 11))], 1), HEALTHY),  # less than 60 %
        (np.concatenate([BOTH_ENDS, np.zeros((64, 10))], 1), VIOLATION),
        (np.where(np.arange(100)[:, None] < 9, 0, np.tile(BOTH_ENDS[:1], (100, 1))), VIOLATION),
        (np.where(np.arange(100)[:, None] < 10, 0, np.tile(BOTH_ENDS[:1], (100, 1))), HEALTHY),
        (BOTH_ENDS[0], VIOLATION),
        (np.full((4, 8), np.nan), NOT_APPLICABLE),
        (np.zeros((0, 8)), NOT_APPLICABLE),
        (2.0, HEALTHY),
    ],
)
def test_inputs(rule: Saturation, value: Any, expected: Outcome) -> None:
    step = seen(rule, "inputs", np.multiply(value, rule.threshold))
    state, verdict = rule.evaluate({}, step)
    assert (state, verdict.outcome) == ({}, expected)


@pytest.mark.parametrize("kind", [np.float16, np.int8])
def test_inputs_of_other_types(rule: Saturation, kind: Any) -> None:
    step = seen(rule, "inputs", np.tile([9, -9], (64, 8)).astype(kind))
    assert rule.evaluate({}, step)[1].violation


@pytest.mark.parametrize("deviation", [0.03, 0.3, 1.0, 3.0, 7.0, 30.0])
def test_outputs_say_the_same(rule: Saturation, deviation: float) -> None:
    inputs = normal(deviation * rule.threshold)
    outputs = np.tanh(inputs) if isinstance(rule, TanhSaturation) else 1 / (1 + np.exp(-inputs))
    sides = [("inputs", inputs), ("outputs", outputs), ("outputs", outputs.astype(np.float32))]
    assert len({rule.evaluate({}, seen(rule, *each))[1].outcome for each in sides}) == 1


def test_scores_of_many_rare_labels_are_healthy() -> None:
    scores = np.where(RNG.random((64, 1000)) < 0.01, 6.0, -8.0)
    rule = SigmoidSaturation()
    assert rule.evaluate({}, seen(rule, "inputs", scores))[1].outcome is HEALTHY


def test_a_generated_image_with_a_dark_background_is_healthy() -> None:
    image = np.where(RNG.random((64, 784)) < 0.1, 1.0, -1.0)
    rule = TanhSaturation()
    assert rule.evaluate({}, seen(rule, "outputs", image))[1].outcome is HEALTHY


def test_the_verdict_names_layer_and_share(rule: Saturation) -> None:
    _, verdict = rule.evaluate({}, seen(rule, "inputs", BOTH_ENDS * rule.threshold))
    assert (verdict.tensor, verdict.reason) == ("act0", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == "100 % of the units of act0 are saturated, more than 60 %"
    assert next(iter(verdict.evidence)) == "saturated_percent"


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        (SigmoidSaturation(4.0), (0.0179862, 0.9820138)),
        (TanhSaturation(4.0), (-np.tanh(4), np.tanh(4))),
    ],
)
def test_reads_inputs_and_outputs(rule: Saturation, ends: tuple[float, float]) -> None:
    details = {name: read.detail for name, read in rule.reads().tensors.items()}
    assert details["inputs"] is not None
    assert details["inputs"].active == (-4.0, 4.0)
    assert details["outputs"] is not None
    assert details["outputs"].active == pytest.approx(ends)
