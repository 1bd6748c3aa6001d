from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import Read, Step, Tensor
from tocsin.rules.layers.constant_output import ConstantOutput

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, valued

RNG = np.random.default_rng(0)
CLASSES = np.arange(32) % 3
BINARY = np.arange(32) % 2
REAL = RNG.normal(size=32)
ROWS = RNG.normal(size=(32, 3))


def tensor(name: str, value: Any, worker: str = "worker_0") -> Tensor:
    return valued(name, value, worker, read=Read(detail=Detail(channel_axis=1)))


def judged(predictions: Any, labels: Any) -> Verdict:
    found = {
        name: () if value is None else (tensor(name, value),)
        for name, value in (("predictions", predictions), ("labels", labels))
    }
    state, verdict = ConstantOutput().evaluate({}, Step(50, Mode.TRAIN, 50, 0.0, found))
    assert state == {}
    return verdict


@pytest.mark.parametrize(
    ("predictions", "labels", "expected"),
    [
        (ROWS, CLASSES, HEALTHY),
        (np.tile([0.1, 0.2, 0.7], (32, 1)), CLASSES, VIOLATION),
        (np.tile([0.1, 0.2, 0.7], (32, 1)), np.eye(3)[CLASSES], VIOLATION),
        (np.tile([0.1, 0.2, 0.7], (32, 1)) + 1e-6 * ROWS, CLASSES, VIOLATION),
        (np.tile([0.1, 0.2, 0.7], (32, 1)) + 0.01 * ROWS, CLASSES, HEALTHY),
        (1e-9 * ROWS, CLASSES, HEALTHY),  # small, but it differs
        (np.zeros((32, 3)), CLASSES, VIOLATION),
        (np.full(32, 0.3), BINARY, VIOLATION),
        (np.full((32, 1), 0.3), BINARY, VIOLATION),
        (0.5 + 0.02 * REAL, BINARY, HEALTHY),  # a discriminator that is undecided
        (np.full(32, 0.4), REAL, VIOLATION),
        (np.zeros(32), REAL, VIOLATION),
        (np.full(32, 1000.0), 1000 + 0.5 * REAL, VIOLATION),
        (1000 + 0.4 * REAL, 1000 + 0.5 * REAL, HEALTHY),  # so does the target hardly vary
        (1000 + 0.4 * REAL[:, None], 1000 + 0.5 * REAL, HEALTHY),
        (np.zeros(32), BINARY, UNDECIDED),  # classes: a beginner may see but one
        (np.ones(32, np.int64), CLASSES, UNDECIDED),
        (np.full(32, 0.9), np.ones(32), UNDECIDED),  # a discriminator's batch of real images
        (np.tile([0.1, 0.9], (32, 1)), np.tile([0.0, 1.0], (32, 1)), UNDECIDED),
        (np.full(7, 0.3), BINARY[:7], NOT_APPLICABLE),
        (np.full(1, 0.3), BINARY[:1], NOT_APPLICABLE),
        (0.3, 1, NOT_APPLICABLE),
        (np.full(32, 0.3), BINARY[:16], NOT_APPLICABLE),
        (np.full(32, 0.3), None, NOT_APPLICABLE),
        (None, BINARY, NOT_APPLICABLE),
        (np.zeros((32, 0)), BINARY, NOT_APPLICABLE),
        (np.zeros((32, 3, 8, 8)), BINARY, NOT_APPLICABLE),
        (np.full(32, np.nan), BINARY, NOT_APPLICABLE),
        (np.full((32, 3), np.nan), CLASSES, NOT_APPLICABLE),
        (np.full(32, 0.3), np.full(32, np.nan), NOT_APPLICABLE),
        (np.full((32, 3), 1e300), CLASSES, NOT_APPLICABLE),  # its square is beyond a double
        (np.full(32, 0.3), np.array(["a", "b"] * 16), NOT_APPLICABLE),
        (ROWS.astype(np.float16), CLASSES.astype(np.int8), HEALTHY),
    ],
)
def test_one_step(predictions: Any, labels: Any, expected: Outcome) -> None:
    assert judged(predictions, labels).outcome is expected


def test_what_it_says() -> None:
    verdict = judged(np.full((32, 3), 0.5), CLASSES)
    assert (verdict.reason, verdict.tensor) == (Reason.CONSTANT, "predictions")
    assert dict(verdict.evidence) == {"spread": 0.0, "threshold": 1e-3}
    assert verdict.detail == (
        "predictions varies over the samples by 0 of its size, at most 0.001, while the labels "
        "differ"
    )


def test_the_worker_whose_output_is_constant_is_named() -> None:
    found = {
        "predictions": (tensor("p", ROWS), tensor("p", np.ones((32, 3)), "worker_1")),
        "labels": (tensor("l", CLASSES), tensor("l", CLASSES, "worker_1")),
    }
    _, verdict = ConstantOutput().evaluate({}, Step(50, Mode.TRAIN, 50, 0.0, found))
    assert (verdict.outcome, verdict.worker) == (VIOLATION, "worker_1")


def test_summaries_without_moments_by_column_are_not_judged() -> None:
    bare = Tensor("p", "worker_0", TensorSummary(mean=0.5, variance=0.0), (32, 3))
    found = {"predictions": (bare,), "labels": (tensor("l", CLASSES),)}
    _, verdict = ConstantOutput().evaluate({}, Step(50, Mode.TRAIN, 50, 0.0, found))
    assert verdict.outcome is NOT_APPLICABLE
