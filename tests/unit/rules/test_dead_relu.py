from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Detail, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Read, Step, Tensor
from tocsin.rules.layers.dead_relu import DeadRelu

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    made,
    outcomes,
    valued,
)

AMAZON = made("DeadRelu", "sagemaker")
QUICK = DeadRelu(saves=3, samples=6)
NAN = float("nan")


def output(name: str, value: Any, *, worker: str = "worker_0") -> Tensor:
    if isinstance(value, TensorSummary):
        return Tensor(name, worker, value)
    return valued(name, value, worker, read=Read(detail=Detail(active=(0.0, None))))


def step(number: int, *outputs: Tensor, mode: Mode = Mode.TRAIN) -> Step:
    return Step(number, mode, number, 0.0, {"outputs": outputs})


def alive(units: int, living: int, rows: int = 4) -> np.ndarray:
    """The first ``living`` units fire for every sample."""
    value = np.zeros((rows, units))
    value[:, :living] = 1.0
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (alive(10, 10), HEALTHY),
        (alive(10, 5), HEALTHY),  # half, not more
        (alive(10, 4), VIOLATION),
        (np.zeros((4, 10)), VIOLATION),
        (np.zeros((4, 1)), VIOLATION),
        (-np.ones((4, 10)), VIOLATION),
        (np.zeros((4, 10), np.int32), VIOLATION),
        (np.ones((4, 10), bool), HEALTHY),
        (np.zeros((2, 3, 5, 5)), VIOLATION),
        (np.eye(100)[:, :1] @ np.ones((1, 4)), HEALTHY),  # 1 % of the samples
        (np.eye(101)[:, :1] @ np.ones((1, 4)), VIOLATION),  # less
        (0.0, VIOLATION),
        (np.zeros((0, 4)), NOT_APPLICABLE),
        (np.zeros((4, 0)), NOT_APPLICABLE),
        (np.full((4, 10), NAN), NOT_APPLICABLE),  # not for this rule
        (np.array(["a"]), NOT_APPLICABLE),
        (TensorSummary(size=8, units=4), NOT_APPLICABLE),
        (TensorSummary(size=8, units=0, inactive_units=0), NOT_APPLICABLE),
        (TensorSummary(size=8, units=4, inactive_units=4), VIOLATION),
    ],
)
def test_one_step_as_amazon_documents_it(value: Any, expected: Outcome) -> None:
    state, verdict = AMAZON.evaluate({}, step(0, output("relu0_output", value)))
    assert verdict.outcome is expected
    assert state == {}


DEAD, WELL = alive(10, 2), alive(10, 3)
OTHERS = alive(10, 2)[:, ::-1]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([DEAD] * 4, [UNDECIDED, UNDECIDED, VIOLATION, VIOLATION]),
        ([WELL] * 4, [HEALTHY] * 4),  # 70 %, not above 75 %
        ([DEAD, DEAD, WELL, DEAD, DEAD], [UNDECIDED, UNDECIDED, HEALTHY, UNDECIDED, UNDECIDED]),
        ([DEAD, OTHERS, DEAD, OTHERS], [UNDECIDED] * 4),  # each time others are silent
        ([DEAD, None, DEAD, DEAD], [UNDECIDED, NOT_APPLICABLE, UNDECIDED, VIOLATION]),
        ([DEAD, NAN, DEAD, DEAD], [UNDECIDED, NOT_APPLICABLE, UNDECIDED, VIOLATION]),
        ([DEAD, DEAD, np.zeros((4, 16))], [UNDECIDED] * 3),  # other units, a new beginning
        ([np.zeros((1, 10))] * 7, [UNDECIDED] * 5 + [VIOLATION] * 2),  # few samples
        ([np.zeros(10)] * 6, [UNDECIDED] * 5 + [VIOLATION]),
        ([alive(7, 1)] * 4, [HEALTHY] * 4),  # a tiny layer
        ([alive(7, 0)] * 3, [UNDECIDED, UNDECIDED, VIOLATION]),
        ([np.zeros((4, 1))] * 3, [UNDECIDED, UNDECIDED, VIOLATION]),
        ([alive(1000, 200)] * 3, [UNDECIDED, UNDECIDED, VIOLATION]),
        ([alive(1000, 300)] * 3, [HEALTHY] * 3),
        ([alive(70_000, 1, rows=2)] * 3, [HEALTHY] * 3),  # nobody counted so many units
    ],
)
def test_the_same_units_over_several_saves(history: list[Any], expected: list[Outcome]) -> None:
    steps = [
        step(10 * at, *([] if value is None else [output("relu0_output", value)]))
        for at, value in enumerate(history)
    ]
    assert outcomes(QUICK, steps) == expected


def test_a_unit_that_fires_now_and_then_is_alive() -> None:
    rng = np.random.default_rng(0)
    steps = [
        step(at, output("relu0_output", (rng.random((16, 64)) < 0.02) * 1.0)) for at in range(200)
    ]
    assert VIOLATION not in outcomes(DeadRelu(), steps)
    assert VIOLATION in outcomes(AMAZON, steps)


def test_modes_and_workers() -> None:
    """All steps of a tensor count, each worker's for itself."""
    modes = [Mode.EVAL, Mode.TRAIN, Mode.EVAL]
    steps = [
        step(at, output("r", DEAD), output("r", WELL, worker="worker_1"), mode=mode)
        for at, mode in enumerate(modes)
    ]
    verdict = judged(QUICK, steps)[-1]
    assert (verdict.outcome, verdict.worker) == (VIOLATION, "worker_0")


def test_reports_the_worst_layer() -> None:
    found = [output("b", alive(10, 4)), output("a", alive(10, 1)), output("c", alive(10, 1))]
    _, verdict = AMAZON.evaluate({}, step(5, *found))
    assert (verdict.tensor, verdict.reason) == ("a", Reason.ABOVE_THRESHOLD)
    assert verdict.detail == (
        "90 % of the units of a were inactive in each of 1 saves, more than 50 %"
    )
    assert dict(verdict.evidence) == {"dead_percent": 90, "units": 10, "threshold_layer": 50}
