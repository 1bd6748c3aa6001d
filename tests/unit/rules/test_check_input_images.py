from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.rules.amazon.check_input_images import CheckInputImages

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    outcomes,
    valued,
)

NAN = float("nan")


def image(value: Any, *, name: str = "x", worker: str = "worker_0", channel: int = 1) -> Tensor:
    if isinstance(value, TensorSummary):
        return Tensor(name, worker, value, (10, 3, 2, 2))
    return valued(name, value, worker, read=Read(detail=Detail(channel_axis=channel)))


def saves(*found: Sequence[Tensor]) -> list[Step]:
    return [
        Step(at, Mode(1 + at % 2), at, 0.0, {"images": tuple(each)})
        for at, each in enumerate(found)
    ]


def flat(*means: float, count: int = 10) -> np.ndarray:
    """Images whose channels have these means."""
    return np.broadcast_to(np.reshape(means, (1, -1, 1, 1)), (count, len(means), 2, 2)).copy()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([flat(0.5)] * 3, [UNDECIDED, VIOLATION, VIOLATION]),
        ([flat(0.0, 0.2)] * 2, [UNDECIDED, HEALTHY]),
        ([flat(0.0, -0.21)] * 2, [UNDECIDED, VIOLATION]),
        ([flat(0.5), flat(-0.5), flat(-0.5)], [UNDECIDED, HEALTHY, HEALTHY]),  # of all together
        ([flat(0.9, count=1), flat(0.0, count=19)], [UNDECIDED, HEALTHY]),  # by samples
        ([flat(0.9, count=20)], [VIOLATION]),
        ([flat(0.5), flat(0.5, 0.5), flat(0.5, 0.5)], [UNDECIDED, UNDECIDED, VIOLATION]),
        ([flat(100).astype(np.uint8)] * 2, [UNDECIDED, VIOLATION]),
        ([flat(NAN)] * 2, [UNDECIDED, HEALTHY]),
        ([flat(0.5)[0]] * 2, [NOT_APPLICABLE] * 2),
        ([np.ones((10, 5))] * 2, [NOT_APPLICABLE] * 2),
        ([np.ones((0, 3, 2, 2))], [NOT_APPLICABLE]),
        ([1.0], [NOT_APPLICABLE]),
        ([TensorSummary(mean=3.0)], [NOT_APPLICABLE]),
        ([np.ones((20, 5000, 1, 1))], [NOT_APPLICABLE]),
    ],
)
def test_means_over_all_images(history: list[Any], expected: list[Outcome]) -> None:
    steps = saves(*([image(value)] for value in history))
    assert outcomes(CheckInputImages(threshold_samples=20), steps) == expected


def test_workers_count_together_inputs_by_themselves() -> None:
    found = [
        image(flat(0.4), worker="worker_0"),
        image(flat(-0.4), worker="worker_1"),
        image(flat(0.0, 0.3), name="y"),
        image(flat(0.0, 0.3), name="y", worker="worker_1"),
    ]
    (verdict,) = judged(CheckInputImages(threshold_samples=20), saves(found))
    assert (verdict.tensor, verdict.reason) == ("y", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == (
        "channel 1 of y has a mean of 0.3 over 20 samples, further from 0 than 0.2"
    )
    assert dict(verdict.evidence) == {
        "absolute_mean": 0.3,
        "mean": 0.3,
        "channel": 1,
        "threshold_mean": 0.2,
    }


def test_channels_last() -> None:
    value = np.moveaxis(flat(0.0, 0.5), 1, -1)
    rule = CheckInputImages(threshold_samples=1, channel=-1)
    (verdict,) = judged(rule, saves([image(value, channel=-1)]))
    assert verdict.evidence["channel"] == 1


def test_what_is_named_need_not_have_four_dimensions() -> None:
    rule = CheckInputImages(threshold_samples=1, regex="x")
    (verdict,) = judged(rule, saves([image(np.ones((10, 5)))]))
    assert verdict.violation
