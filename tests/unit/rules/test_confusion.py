from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules import Read, Step
from tocsin.rules.amazon.confusion import Confusion

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, made, valued

TEN = np.arange(10)
FLIPPED = np.where(TEN == 4, 7, TEN)
PROBABILITIES = np.eye(10)[TEN] * 0.6 + 0.02


def judged(labels: Any, predictions: Any, profile: str = "sagemaker", **parameters: Any) -> Verdict:
    found = {
        "labels": () if labels is None else (valued("labels", labels),),
        "predictions": () if predictions is None else (valued("predictions", predictions),),
    }
    rule = made("Confusion", profile, **parameters)
    state, verdict = rule.evaluate({}, Step(0, Mode.GLOBAL, 0, 0.0, found))
    assert state == {}
    return verdict


@pytest.mark.parametrize(
    ("labels", "predictions", "parameters", "expected"),
    [
        (TEN, TEN, {}, HEALTHY),
        (TEN, FLIPPED, {}, VIOLATION),
        (TEN, TEN, {"min_diag": "0", "max_off_diag": "0.01"}, HEALTHY),
        (TEN, FLIPPED, {"min_diag": "0", "max_off_diag": "0.01"}, VIOLATION),
        (TEN, FLIPPED, {"min_diag": "0", "max_off_diag": "0.5"}, HEALTHY),
        (TEN, FLIPPED, {"min_diag": "0.5", "max_off_diag": "0.5"}, HEALTHY),
        (TEN.astype(np.float32), TEN, {"category_no": "10"}, HEALTHY),
        (TEN, FLIPPED, {"category_no": "4"}, HEALTHY),  # classes 4 and 7 are left out
        (TEN, FLIPPED, {"category_no": "8"}, VIOLATION),
        (TEN, PROBABILITIES, {}, HEALTHY),
        (np.eye(10)[FLIPPED], PROBABILITIES, {}, VIOLATION),
        ([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.2], {}, HEALTHY),
        ([0, 1, 1, 0], [-3.0, 0.2, 9.0, -0.1], {}, HEALTHY),
        ([0, 1, 1, 0], [0.1, 0.7, 0.9, 0.5], {}, VIOLATION),
        ([0, 1, 1, 0], [0, 0, 0, 0], {}, VIOLATION),  # class 1 is never predicted
        ([[0], [1]], [[0.1], [0.9]], {}, HEALTHY),
        ([1, 1, 1], [1, 1, 1], {}, HEALTHY),
        (2, 2, {}, HEALTHY),
        ([-1, 5, 10**12], [-1, 5, 10**12], {}, HEALTHY),
        ([-1, -1, -100, 0, 1, 2], [0, 1, 2, 0, 1, 2], {}, HEALTHY),  # three without a label
        ([-1, -1, 1, 1], [1, 1, 1, 1], {}, VIOLATION),  # two classes
        ([0, 1, 2], [0.1, 1.3, 1.9], {}, NOT_APPLICABLE),  # a regression
        ([0.5, 1.5], [0, 1], {}, NOT_APPLICABLE),
        (TEN, TEN[:5], {}, NOT_APPLICABLE),
        (TEN, None, {}, NOT_APPLICABLE),
        (None, TEN, {}, NOT_APPLICABLE),
        ([], [], {}, NOT_APPLICABLE),
        ([np.nan], [1], {}, NOT_APPLICABLE),
        (["a"], ["a"], {}, NOT_APPLICABLE),
        (np.arange(1001), np.arange(1001), {}, NOT_APPLICABLE),
        ([7, 8], [7, 8], {"category_no": 2}, NOT_APPLICABLE),
    ],
)
def test_one_step(
    labels: Any, predictions: Any, parameters: dict[str, Any], expected: Outcome
) -> None:
    assert judged(labels, predictions, **parameters).outcome is expected


def test_what_it_says() -> None:
    verdict = judged(TEN, FLIPPED)
    assert (verdict.reason, verdict.tensor) == (Reason.BELOW_THRESHOLD, "labels")
    assert verdict.detail == "only 0.5 of the predictions of class 7 match labels, less than 0.9"
    assert dict(verdict.evidence) == {"right": 0.5, "predicted": 7}
    verdict = judged(TEN, FLIPPED, min_diag=0)
    assert verdict.reason is Reason.ABOVE_THRESHOLD
    assert verdict.detail == (
        "0.5 of the predictions of class 7 are class 4 in labels, more than 0.1"
    )
    assert dict(verdict.evidence) == {"confused": 0.5, "predicted": 7, "label": 4}


def test_a_named_tensor_may_be_a_collection() -> None:
    reads = made("Confusion", labels="y.true", labels_collection="truth").reads().tensors
    assert reads["labels"] == Read(
        collections=("y.true", "truth"), regex=(r"^y\.true$",), values=True
    )


def test_workers_are_taken_together_each_with_its_own_predictions() -> None:
    def step(second: Any) -> Step:
        labels = (valued("labels", [0] * 20), valued("labels", [1] * 20, "worker_1"))
        predictions = (
            valued("predictions", [0] * 20),
            valued("predictions", second, "worker_1"),
        )
        return Step(0, Mode.TRAIN, 0, 0.0, {"labels": labels, "predictions": predictions})

    assert Confusion().evaluate({}, step([1] * 20))[1].outcome is HEALTHY
    assert Confusion().evaluate({}, step([1] * 19 + [0]))[1].outcome is HEALTHY  # 20 of 21
    assert Confusion().evaluate({}, step([1] * 10 + [0] * 10))[1].outcome is VIOLATION
