from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Reason, TensorSummary
from tocsin.rules import Step

from tests.unit.rules.judging import HEALTHY, UNDECIDED, made, outcomes, violations

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
rule = partial(made, "LearningRateSchedule")

JUMP, GONE, BAD = Reason.CHANGED_TOO_MUCH, Reason.BELOW_THRESHOLD, Reason.OUT_OF_RANGE


def cosine(at: float) -> float:
    return 0.05 * (1 + math.cos(math.pi * at))


@pytest.mark.parametrize(
    ("rates", "parameters", "expected"),
    [
        pytest.param([0.01] * 8 + [0.1] * 8, {}, {8: JUMP}, id="ten times"),
        pytest.param([0.01] * 8 + [0.04] * 8, {}, {}, id="four times"),
        pytest.param([0.01] * 8 + [0.04] * 8, {"jump": "3"}, {8: JUMP}, id="jump"),
        pytest.param([1e-6, 0.01, 0.1, *[0.2] * 20], {}, {}, id="warm-up in few saves"),
        pytest.param([1e-6] * 5 + [0.1] * 9, {}, {5: JUMP}, id="jumps late"),
        pytest.param([1e-6] * 5 + [0.1] * 9, {"warmup": "6"}, {}, id="warm-up"),
        pytest.param([0.0] * 6 + [0.1] * 20, {}, {}, id="begins late"),
        pytest.param([0.1] * 5 + [0.0] * 10, {}, {14: GONE}, id="zero"),
        pytest.param([0.1] * 5 + [1e-8] * 10, {}, {14: GONE}, id="next to zero"),
        pytest.param([0.1] * 5 + [0.0] * 9 + [0.1], {}, {}, id="zero for a while"),
        pytest.param([0.1] * 5 + [0.0] * 3, {"patience": "3"}, {7: GONE}, id="patience"),
        pytest.param([0.1] * 5 + [1e-3] * 10, {"vanished": "0.01"}, {14: GONE}, id="vanished"),
        pytest.param([0.1] * 190 + [0.0] * 20, {}, {}, id="zero at the very end"),
        pytest.param(
            [0.1] * 190 + [0.0] * 30,
            {"patience": "25"},
            {214: GONE, 215: GONE} | dict.fromkeys(range(216, 220), GONE),
            id="stays zero",
        ),
        pytest.param([0.0] * 10, {}, {9: GONE}, id="never above zero"),
        pytest.param([0.1, NAN, -0.1, INF, 0.1], {}, {1: BAD, 2: BAD, 3: BAD}, id="no rates"),
        pytest.param([np.float16(0.01)] * 6 + [np.int64(1)], {}, {6: JUMP}, id="integer, half"),
        pytest.param([[], TensorSummary(), *[0.01] * 6, 0.1], {}, {8: JUMP}, id="unknown"),
        pytest.param([0.1], {}, {}, id="one save"),
    ],
)
def test_when_it_fires(
    make_step: MakeStep, rates: list[Any], parameters: dict[str, str], expected: dict[int, Reason]
) -> None:
    steps = [make_step("rates", 100 * at, {"lr": rate}) for at, rate in enumerate(rates)]
    found = violations(rule(**parameters), steps)
    assert {at: verdict.reason for at, verdict in found.items()} == expected


@pytest.mark.parametrize("saves", [20, 100, 3000])
@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(lambda at: 0.1, id="constant"),
        pytest.param(cosine, id="cosine"),
        pytest.param(lambda at: cosine(4 * at % 1), id="restarts"),
        pytest.param(lambda at: min(10 * at, 1) * cosine(at), id="warm-up, cosine"),
        pytest.param(lambda at: 1 - at, id="linear"),
        pytest.param(lambda at: 0.1 ** int(4 * at), id="steps"),
        pytest.param(lambda at: 0.99 ** (1000 * at), id="exponential"),
        pytest.param(lambda at: 1e-4 + abs(8 * at % 2 - 1), id="cycles"),
        pytest.param(lambda at: 0.04 + 0.96 * max(0, 1 - abs(at / 0.3 - 1)), id="one cycle"),
    ],
)
def test_usual_schedules(
    make_step: MakeStep, schedule: Callable[[float], float], saves: int
) -> None:
    steps = [make_step("rates", at, {"lr": schedule(at / saves)}) for at in range(saves)]
    assert not violations(rule(), steps)


def test_warm_up_by_epochs(make_step: MakeStep) -> None:
    steps = [make_step("rates", at, {"lr": 1e-4 if at < 110 else 1.1e-3}) for at in range(130)]
    assert not violations(rule(), steps)


def test_frozen_layers_have_a_rate_of_zero(make_step: MakeStep) -> None:
    frozen = [make_step("rates", at, {"lr_0": 0.0, "lr_1": 0.1}) for at in range(50)]
    assert not violations(rule(), frozen)
    later = [
        make_step("rates", at, {"lr_0": 0.1 if at < 5 else 0.0, "lr_1": 0.1}) for at in range(50)
    ]
    assert not violations(rule(), later)


def test_says_what_happened(make_step: MakeStep) -> None:
    def steps(*rates: float) -> list[Step]:
        found = enumerate(rates)
        return [make_step("rates", 100 * at, {"a": 0.25, "b": rate}) for at, rate in found]

    verdict = violations(rule(), steps(*[0.25] * 6, 2.5))[6]
    assert verdict.tensor == "b"
    assert verdict.detail == "b jumped to 2.5; its maximum before was 0.25"
    assert dict(verdict.evidence) == {"learning_rate": 2.5, "highest_before": 0.25}

    gone = [make_step("rates", at, {"c": 0.0 if at else 0.25}) for at in range(11)]
    verdict = violations(rule(), gone)[10]
    assert verdict.detail == "c is 0, and has been this low for 10 saves; its maximum was 0.25"
    assert dict(verdict.evidence) == {"learning_rate": 0.0, "highest": 0.25, "saves": 10}

    verdict = violations(rule(), steps(-0.5))[0]
    assert verdict.detail == "b is -0.5, which is not a learning rate"


def test_undecided_before_the_first_rate_above_zero(make_step: MakeStep) -> None:
    steps = [make_step("rates", at, {"lr": rate}) for at, rate in enumerate((0.0, 0.1))]
    assert outcomes(rule(), steps) == [UNDECIDED, HEALTHY]
