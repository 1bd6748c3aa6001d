from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import BadRule, Step, Tensor, build
from tocsin.rules.amazon.nlp_sequence_ratio import NLPSequenceRatio

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made


def sequences(value: Any, name: str = "input_ids", worker: str = "worker_0") -> Tensor:
    array = None if value is None else np.asarray(value)
    return Tensor(name, worker, TensorSummary(), value=array)


def step(*found: Tensor) -> Step:
    return Step(0, Mode.TRAIN, 0, 0.0, {"sequences": found})


@pytest.mark.parametrize(
    ("value", "parameters", "expected"),
    [
        ([[5, 6, 0, 0], [7, 8, 9, 0]], {}, HEALTHY),
        ([[5, 6, 0, 0], [7, 8, 0, 0]], {}, HEALTHY),  # half, not more
        ([[5, 6, 0, 0], [7, 0, 0, 0]], {}, VIOLATION),
        ([0, 0, 1], {}, VIOLATION),
        (0, {}, VIOLATION),
        ([[1, 1, 1, 0]], {"token_values": (1.0,)}, VIOLATION),
        (
            [[1, 2, 0, 0]],
            {"token_values": (1.0, 2.0), "token_thresholds_percent": (25, 20)},
            VIOLATION,
        ),
        (
            [[1, 2, 0, 0]],
            {"token_values": (1.0, 2.0), "token_thresholds_percent": (25, 25)},
            HEALTHY,
        ),
        ([[-1, -1, 3]], {"token_values": (-1.0,)}, VIOLATION),
        (np.uint16([[0, 0, 3]]), {"token_values": (-1.0,)}, HEALTHY),
        (np.uint16([[0, 0, 3]]), {"token_values": (1e9,)}, HEALTHY),
        (np.zeros((2, 0), int), {}, NOT_APPLICABLE),
        (np.zeros((2, 8)), {}, NOT_APPLICABLE),  # not integers
        (np.zeros((2, 8)), {"tensor_regex": ("embedding0_input_0",)}, VIOLATION),
        (np.full((2, 8), np.nan), {"tensor_regex": ("embedding0_input_0",)}, HEALTHY),
        (np.zeros((2, 3, 4, 4), int), {}, NOT_APPLICABLE),
        (np.zeros((2, 784), np.uint8), {}, NOT_APPLICABLE),  # images
        (np.zeros((2, 8), bool), {}, NOT_APPLICABLE),
        (["a", ""], {}, NOT_APPLICABLE),
        (["a", ""], {"tensor_regex": ("x",)}, NOT_APPLICABLE),
        (None, {}, NOT_APPLICABLE),
    ],
)
def test_one_batch(value: Any, parameters: dict[str, Any], expected: Outcome) -> None:
    state, verdict = NLPSequenceRatio(**parameters).evaluate({}, step(sequences(value)))
    assert verdict.outcome is expected
    assert state == {}


@pytest.mark.parametrize("name", ["attention_mask", "token_type_ids", "segments", "labels"])
def test_integers_that_are_not_tokens(name: str) -> None:
    found = step(sequences([[0, 0, 0]], name))
    assert NLPSequenceRatio().evaluate({}, found)[1].outcome is NOT_APPLICABLE
    assert NLPSequenceRatio(tensor_regex=(name,)).evaluate({}, found)[1].violation


def test_reports_what_is_furthest_above_its_threshold() -> None:
    rule = NLPSequenceRatio(token_values=(0.0, 3.0), token_thresholds_percent=(50.0, 10.0))
    found = step(sequences([[0, 0, 0, 3, 3]]), sequences([[1, 2, 0, 0]], worker="worker_1"))
    _, verdict = rule.evaluate({}, found)
    assert (verdict.worker, verdict.reason) == ("worker_0", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == "40 % of the tokens of input_ids are 3, more than 10 %"
    assert dict(verdict.evidence) == {"percent": 40, "token": 3, "threshold_percent": 10}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"token_values": "0,1"}, "token_values has 2 and token_thresholds_percent 1 numbers"),
        ({"token_values": "", "token_thresholds_percent": ""}, "at least 1"),
        ({"token_values": "nan"}, "token_values has nan, but must have finite numbers"),
    ],
)
def test_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("NLPSequenceRatio", parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"), [("embedding0_input_0", VIOLATION), ("dense0_input_0", NOT_APPLICABLE)]
)
def test_tokens_of_mxnet_are_real_numbers(name: str, expected: Outcome) -> None:
    rule = made("NLPSequenceRatio", "sagemaker")
    found = sequences(np.float32([[7, 0, 0, 0]]), name)
    assert rule.evaluate({}, step(found))[1].outcome is expected
