from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.data.non_finite_data import NonFiniteData

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION

NAN, INF = float("nan"), float("inf")

MakeTensor = Callable[..., Tensor]


def step(*data: Tensor, losses: tuple[Tensor, ...] = ()) -> Step:
    return Step(30, Mode.TRAIN, 30, 0.0, {"data": data, "losses": losses})


@pytest.mark.parametrize(
    ("role", "name", "value", "loss", "expected"),
    [
        (Role.INPUT, "x", [1.0, 2.0], None, HEALTHY),
        (Role.INPUT, "x", [1.0, NAN], None, VIOLATION),
        (Role.INPUT, "x", [1.0, NAN], 0.5, VIOLATION),  # swallowed: the loss will not show it
        (Role.INPUT, "x", [1.0, -INF], None, VIOLATION),
        (Role.INPUT, "x", [0.0, -INF], 0.5, HEALTHY),  # masks attention: the loss would show it
        (Role.INPUT, "x", [0.0, -INF], NAN, VIOLATION),
        (Role.INPUT, "x", [0.0, -INF], None, HEALTHY),  # a mask, while a model generates
        (Role.INPUT, "x", [0.0, 1.0, -INF], None, VIOLATION),
        (Role.INPUT, "x", [-INF, -INF], None, VIOLATION),
        (Role.INPUT, "x", [0.0, INF], None, VIOLATION),
        (Role.INPUT, "x", [0.0, INF], 0.5, VIOLATION),
        (Role.INPUT, "x", [NAN, -INF], 0.5, VIOLATION),
        (Role.INPUT, "x", NAN, None, VIOLATION),
        (Role.INPUT, "x", np.array([1, 2]), None, HEALTHY),
        (Role.INPUT, "x", np.float16([INF]), None, VIOLATION),
        (Role.INPUT, "x", [], None, HEALTHY),
        (Role.INPUT, "x", ["text"], None, NOT_APPLICABLE),
        (Role.INPUT, "x", TensorSummary(nan=1), None, VIOLATION),
        (Role.INPUT, "attention_mask", [0.0, -INF], None, HEALTHY),
        (Role.INPUT, "attention_mask", [0.0, NAN], None, VIOLATION),
        (Role.LABEL, "y", [NAN, 1.0], None, VIOLATION),
        (Role.LABEL, "y", [NAN, 1.0], NAN, VIOLATION),
        (Role.LABEL, "y", [NAN, 1.0], 0.5, HEALTHY),  # unknown, and left out of the loss
        (Role.LABEL, "y", [NAN, 1.0], TensorSummary(), VIOLATION),
        (Role.LABEL, "y", [INF, 1.0], 0.5, VIOLATION),
        (Role.LABEL, "mask", [INF, 1.0], None, VIOLATION),
        (None, "anything", [NAN], None, VIOLATION),
    ],
)
def test_one_tensor(
    make_tensor: MakeTensor, role: Role | None, name: str, value: Any, loss: Any, expected: Outcome
) -> None:
    losses = () if loss is None else (make_tensor("loss", loss),)
    found = step(make_tensor(name, value, role=role), losses=losses)
    state, verdict = NonFiniteData().evaluate({}, found)
    assert verdict.outcome is expected
    assert state == {}


def test_one_of_two_losses_that_is_lost(make_tensor: MakeTensor) -> None:
    losses = (make_tensor("a", 0.5), make_tensor("b", INF))
    found = step(make_tensor("y", [NAN], role=Role.LABEL), losses=losses)
    assert NonFiniteData().evaluate({}, found)[1].violation


@pytest.mark.parametrize(
    ("value", "detail", "evidence"),
    [
        (
            [NAN, NAN, INF, 1.0],
            "2 NaN and 1 infinite among the 4 values of x",
            {"non_finite": 3, "nan": 2, "infinite": 1, "size": 4},
        ),
        (
            TensorSummary(nan=0, posinf=2),
            "2 infinite among the values of x",
            {"non_finite": 2, "nan": 0, "infinite": 2},
        ),
    ],
)
def test_tells_how_many(
    make_tensor: MakeTensor, value: Any, detail: str, evidence: dict[str, int]
) -> None:
    healthy = make_tensor("a", [1.0], role=Role.INPUT)
    _, verdict = NonFiniteData().evaluate({}, step(healthy, make_tensor("x", value)))
    assert (verdict.tensor, verdict.reason) == ("x", Reason.NOT_FINITE)
    assert verdict.detail == detail
    assert dict(verdict.evidence) == evidence
