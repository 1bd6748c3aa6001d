from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import BadRule, Step, Tensor, build
from tocsin.rules.sigmoid_saturation import SigmoidSaturation
from tocsin.tensors import detailed, summarize

HEALTHY, VIOLATION, NOT_APPLICABLE = Outcome.HEALTHY, Outcome.VIOLATION, Outcome.NOT_APPLICABLE
FIELDS = ("bounds", "units", "inactive_units", "unit_active")
RNG = np.random.default_rng(0)


def seen(side: str, value: Any) -> Step:
    reads = SigmoidSaturation().reads().tensors
    summary = value
    if not isinstance(value, TensorSummary):
        detail = detailed(np.asarray(value), reads[side].detail or Detail())
        known = {field: getattr(detail, field) for field in FIELDS}
        summary = msgspec.structs.replace(summarize(np.asarray(value)), **known)
    found = dict.fromkeys(reads, ()) | {side: (Tensor("act0", "worker_0", summary),)}
    return Step(0, Mode.TRAIN, 0, 0.0, found)


def normal(deviation: float, units: int = 32, rows: int = 64) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, units)) * deviation


BOTH_ENDS = np.tile([6.0, -6.0], (64, 8))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (normal(1), HEALTHY),
        (normal(9), HEALTHY),
        (normal(50), VIOLATION),
        (BOTH_ENDS, VIOLATION),
        (BOTH_ENDS * 0.8, HEALTHY),
        (BOTH_ENDS[:, :7], HEALTHY),  # so few units may be the output
        (np.abs(BOTH_ENDS), HEALTHY),  # all at one end may be the output, too
        (np.concatenate([BOTH_ENDS, np.zeros((64, 11))], 1), HEALTHY),  # less than 60 %
        (np.concatenate([BOTH_ENDS, np.zeros((64, 10))], 1), VIOLATION),
        (np.where(np.arange(100)[:, None] < 9, 0, np.tile(BOTH_ENDS[:1], (100, 1))), VIOLATION),
        (np.where(np.arange(100)[:, None] < 10, 0, np.tile(BOTH_ENDS[:1], (100, 1))), HEALTHY),
        (BOTH_ENDS.astype(np.float16), VIOLATION),
        (BOTH_ENDS.astype(np.int8), VIOLATION),
        (BOTH_ENDS[0], VIOLATION),
        (np.full((4, 8), np.nan), NOT_APPLICABLE),
        (np.zeros((0, 8)), NOT_APPLICABLE),
        (7.0, HEALTHY),
        (TensorSummary(), NOT_APPLICABLE),
    ],
)
def test_inputs(value: Any, expected: Outcome) -> None:
    state, verdict = SigmoidSaturation().evaluate({}, seen("inputs", value))
    assert verdict.outcome is expected
    assert state == {}


@pytest.mark.parametrize("deviation", [0.1, 1.0, 5.0, 15.0, 40.0, 100.0])
def test_outputs_say_the_same(deviation: float) -> None:
    inputs = normal(deviation)
    outcomes = {
        SigmoidSaturation().evaluate({}, seen(side, value))[1].outcome
        for side, value in (
            ("inputs", inputs),
            ("outputs", 1 / (1 + np.exp(-inputs))),
            ("outputs", (1 / (1 + np.exp(-inputs))).astype(np.float32)),
        )
    }
    assert len(outcomes) == 1


def test_scores_of_many_rare_labels() -> None:
    scores = np.where(RNG.random((64, 1000)) < 0.01, 6.0, -8.0)
    assert SigmoidSaturation().evaluate({}, seen("inputs", scores))[1].outcome is HEALTHY


def test_the_verdict_tells_layer_and_share() -> None:
    _, verdict = SigmoidSaturation().evaluate({}, seen("inputs", BOTH_ENDS))
    assert (verdict.tensor, verdict.reason) == ("act0", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == "100 % of the units of act0 are saturated, more than 60 %"
    assert next(iter(verdict.evidence)) == "saturated_percent"


@pytest.mark.parametrize("profile", ["recommended", "sagemaker"])
def test_parameters_as_on_the_wire(profile: str) -> None:
    rule, options = build("SigmoidSaturation", {"threshold": "4", "min_units": "16"}, profile)
    assert rule == SigmoidSaturation(threshold=4.0, min_units=16)
    assert options == ({"for_steps": 3} if profile == "recommended" else {})
    detail = rule.reads().tensors["outputs"].detail
    assert detail is not None
    assert detail.active == pytest.approx((0.0179862, 0.9820138))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": "0"}, "threshold is 0.0, but must be a number above 0"),
        ({"threshold": "inf"}, "threshold is inf, but must be a number above 0"),
        ({"min_side": "51"}, "min_side is 51.0, but must be from 0 to 50"),
        ({"threshold_inactivity": "101"}, "threshold_inactivity is 101.0"),
    ],
)
def test_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("SigmoidSaturation", parameters)
    assert message in str(caught.value)
