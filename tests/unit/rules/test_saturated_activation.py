from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import BadRule, Rule, Step, Tensor, build
from tocsin.rules.layers.saturated_activation import SaturatedActivation

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made, valued

AMAZON = made("SaturatedActivation", "sagemaker")
NAN = float("nan")


def seen(rule: Rule, read: str, name: str, value: Any, kind: str | None = None) -> Step:
    """A step in which one read has found one tensor."""
    reads = rule.reads().tensors
    if isinstance(value, TensorSummary):
        tensor = Tensor(name, "worker_0", value, kind=kind)
    else:
        tensor = valued(name, value, read=reads[read], kind=kind)
    return Step(0, Mode.TRAIN, 0, 0.0, dict.fromkeys(reads, ()) | {read: (tensor,)})


def stuck(units: int, beyond: int, at: float, rows: int = 4) -> np.ndarray:
    """``beyond`` of the units are at ±``at`` for every sample, the others at 0."""
    value = np.zeros((rows, units))
    value[:, :beyond] = at
    value[1::2] *= -1
    return value


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("tanh", stuck(10, 6, 9.5), VIOLATION),
        ("tanh", stuck(10, 6, 9.49), HEALTHY),
        ("tanh", stuck(10, 5, 30.0), HEALTHY),  # half, not more
        ("tanh", stuck(1, 1, 30.0), VIOLATION),
        ("sigmoid", stuck(10, 6, 9.5), HEALTHY),
        ("sigmoid", np.full((4, 10), 17.0), VIOLATION),
        ("sigmoid", np.full((4, 10), -17.0), HEALTHY),
        ("sigmoid", np.full((4, 10), -23.0), VIOLATION),
        ("sigmoid", np.full((4, 3, 2, 2), -23.0), VIOLATION),
        ("tanh", np.where(np.arange(101)[:, None] < 1, 0.0, np.full((101, 8), 20.0)), VIOLATION),
        ("tanh", np.where(np.arange(100)[:, None] < 1, 0.0, np.full((100, 8), 20.0)), HEALTHY),
        ("tanh", np.full((4, 10), np.inf), VIOLATION),
        ("tanh", np.full((4, 10), NAN), NOT_APPLICABLE),
        ("tanh", np.int64([[20, -20]]), VIOLATION),
        ("tanh", np.float16([[9.5, 60000]]), VIOLATION),
        ("tanh", 20.0, VIOLATION),
        ("tanh", np.zeros((0, 4)), NOT_APPLICABLE),
        ("tanh", TensorSummary(size=8, mean=30.0), NOT_APPLICABLE),
    ],
)
def test_one_layer(kind: str, value: Any, expected: Outcome) -> None:
    step = seen(AMAZON, kind, f"{kind}0_input", value, kind)
    state, verdict = AMAZON.evaluate({}, step)
    assert verdict.outcome is expected
    assert state == {}


def test_a_lone_output_may_be_sure_of_itself() -> None:
    rule = SaturatedActivation()
    for units, expected in ((3, HEALTHY), (4, VIOLATION)):
        step = seen(rule, "sigmoid", "out", stuck(units, units, 40.0), "sigmoid")
        assert rule.evaluate({}, step)[1].outcome is expected


@pytest.mark.parametrize(
    ("name", "kind", "read", "expected"),
    [
        ("tanh0_input", None, "tanh", VIOLATION),
        ("Net_Tanh_input_0", None, "tanh", VIOLATION),
        ("act0", "tanh", "tanh", VIOLATION),
        ("sigmoid_block_tanh_input", None, "tanh", VIOLATION),  # the last one in the name
        ("sigmoid0_input", None, "tanh", NOT_APPLICABLE),  # its own read finds it, too
        ("sigmoid0_input", None, "sigmoid", HEALTHY),
        ("tanh_block_act", "sigmoid", "tanh", NOT_APPLICABLE),
        ("act0", None, "tanh", NOT_APPLICABLE),
        ("act0", None, "sigmoid", NOT_APPLICABLE),
    ],
)
def test_which_bounds_belong_to_a_tensor_that_was_named(
    name: str, kind: str | None, read: str, expected: Outcome
) -> None:
    rule = SaturatedActivation(tensor_regex=("input|act",))
    step = seen(rule, read, name, stuck(10, 10, 12.0), kind)
    assert rule.evaluate({}, step)[1].outcome is expected


def test_the_verdict_tells_layer_and_share() -> None:
    step = seen(AMAZON, "tanh", "tanh0_input", stuck(10, 7, 12.0))
    _, verdict = AMAZON.evaluate({}, step)
    assert (verdict.tensor, verdict.reason) == ("tanh0_input", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == "70 % of the units of tanh0_input are saturated, more than 50 %"
    assert dict(verdict.evidence) == {"saturated_percent": 70, "units": 10, "threshold_layer": 50}


def test_pairs_go_before_single_bounds() -> None:
    rule = SaturatedActivation(threshold_tanh=(-1, 2), threshold_tanh_max=5)
    assert rule.reads().tensors["tanh"].detail == Detail(active=(-1, 2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold_tanh": "1"}, "threshold_tanh must be two numbers, min and max"),
        ({"threshold_sigmoid": "2,1"}, "threshold_sigmoid is 2.0, 1.0, but must be min below max"),
        ({"threshold_tanh_min": "nan"}, "threshold_tanh is nan"),
    ],
)
def test_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("SaturatedActivation", parameters)
    assert message in str(caught.value)
