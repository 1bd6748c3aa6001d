from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Reason, TensorSummary
from tocsin.rules import Step

from tests.unit.rules.judging import HEALTHY, UNDECIDED, first, judged, made, outcomes

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
rule = partial(made, "LossTooGoodTooSoon")


@pytest.mark.parametrize(
    ("name", "values", "parameters", "expected"),
    [
        pytest.param("loss", [6.9, 0.3, *[0.01] * 9], {}, 5, id="at once"),
        pytest.param("loss", [6.9 * 0.51**at for at in range(20)], {}, 10, id="in 100 steps"),
        pytest.param("loss", [6.9 * 0.7**at for at in range(20)], {}, None, id="in 140 steps"),
        pytest.param("loss", [6.9 * 0.7**at for at in range(20)], {"steps": "200"}, 16, id="steps"),
        pytest.param("loss", [6.9, 1.0, 0.1, 0.1, 0.1, 0.1], {"percent": "2"}, 5, id="percent"),
        pytest.param("loss", [6.9, 1.0, 0.0, 1.0, 1.0], {}, None, id="one lucky batch"),
        pytest.param("loss", [0.0] * 9, {}, None, id="zero from the beginning"),
        pytest.param("loss", [-1.0, *[-500.0] * 9], {}, None, id="negative"),
        pytest.param("loss", [2.0, *[-500.0] * 9], {}, 4, id="below zero"),
        pytest.param("loss", [NAN, 6.9, *[0.01] * 9], {}, 5, id="NaN at first"),
        pytest.param("loss", [6.9, *[NAN] * 9], {}, None, id="lost"),
        pytest.param("loss", [6.9, -INF, -INF], {}, None, id="infinite"),
        pytest.param("accuracy", [0.1, *[1.0] * 9], {}, 4, id="all right"),
        pytest.param("accuracy", [1.0, 1.0, 0.9] * 3, {}, None, id="almost always right"),
        pytest.param("accuracy", [0.1, *[0.99] * 9], {}, None, id="good"),
        pytest.param("accuracy", [0.1, *[0.99] * 9], {"perfect": "0.98"}, 4, id="perfect"),
        pytest.param("accuracy", [1.0, 20.0, 30.0, 40.0], {}, None, id="in percent"),
        pytest.param("accuracy", [0.0] * 9, {}, None, id="never right"),
        pytest.param("score", [0.1, *[1.0] * 9], {"direction": "rises"}, 4, id="direction"),
        pytest.param("loss", [np.int64(900), *[np.uint8(1)] * 4], {}, 4, id="integers"),
        pytest.param("loss", [[], TensorSummary(), 6.9, *[0.0] * 4], {}, 6, id="unknown at first"),
        pytest.param("loss", [6.9], {}, None, id="one save"),
    ],
)
def test_when_it_fires(
    make_step: MakeStep,
    name: str,
    values: list[Any],
    parameters: dict[str, str],
    expected: int | None,
) -> None:
    steps = [make_step("scalars", 10 * at, {name: value}) for at, value in enumerate(values)]
    assert first(judged(rule(**parameters), steps)) == expected


def test_each_mode_counts_its_own_steps(make_step: MakeStep) -> None:
    """The first evaluation comes after many steps of training, and is perfect."""
    steps = [make_step("scalars", at, {"acc": 0.9}) for at in range(0, 1000, 10)]
    steps += [
        make_step("scalars", 1000 + at, {"acc": 1.0}, mode=Mode.EVAL, mode_step=at)
        for at in range(4)
    ]
    assert first(judged(rule(), steps)) == 103


def test_afterwards_all_is_well(make_step: MakeStep) -> None:
    steps = [make_step("scalars", 10 * at, {"loss": 0.8**at}) for at in range(40)]
    assert outcomes(rule(), steps) == [UNDECIDED] * 3 + [HEALTHY] * 37


def test_says_what_happened(make_step: MakeStep) -> None:
    steps = [make_step("scalars", 5 * at, {"loss": 0.01 if at else 6.9}) for at in range(5)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.BELOW_THRESHOLD, "loss")
    assert verdict.detail == "loss fell from 6.9 to 0.01 within 20 steps"
    assert dict(verdict.evidence) == {"loss": 0.01, "first": 6.9}

    steps = [make_step("scalars", 5 * at, {"auc": 1.0 if at else 0.5}) for at in range(5)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.ABOVE_THRESHOLD, "auc")
    assert verdict.detail == "auc is 1, nearly perfect, after 20 steps"
    assert dict(verdict.evidence) == {"value": 1.0, "first": 0.5}
