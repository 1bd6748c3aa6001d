from __future__ import annotations

import math
from typing import Any

import pytest
from tocsin.model import ACTING, Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients.learning_rate_too_large import LearningRateTooLarge

from tests.unit.rules.judging import HEALTHY, UNDECIDED, fired, judging, outcomes

NAN = float("nan")
judged = judging("LearningRateTooLarge")


def save(
    at: int,
    move: float | None,
    *,
    gradient: float | None = 5.0,
    loss: float | None = 2.0,
    size: float | None = 10.0,
    mode: Mode = Mode.TRAIN,
    gradient_before: float | None = None,
    kind: str | None = None,
) -> Step:
    """A step at which one weight of norm ``size`` has moved by ``move`` since the save before."""
    before = (Tensor("w", "worker_0", TensorSummary(l2=size)),)
    weight = Tensor("w", "worker_0", TensorSummary(l2=size, update_l2=move), previous=before)
    lost = loss is not None and math.isnan(loss)
    losses = TensorSummary(nan=int(lost), mean=None if lost else loss)
    found = {
        "weights": (weight,),
        "gradients": (
            Tensor(
                "gradient/w",
                "worker_0",
                TensorSummary(l2=gradient),
                previous=(Tensor("gradient/w", "worker_0", TensorSummary(l2=gradient_before)),),
            ),
        ),
        "losses": (Tensor("loss", "worker_0", losses, kind=kind),),
    }
    return Step(at, mode, at, 1000.0 + at, found)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([save(at, 5.0) for at in range(8)], [4, 5, 6, 7], id="erratic"),
        pytest.param(
            [save(at, 5.0 if at == 1 else 0.0) for at in range(8)], [4, 5, 6, 7], id="dead after"
        ),
        pytest.param(
            [save(0, None), save(10, 9.5, gradient=0.0, gradient_before=5.0)]
            + [save(10 * at, 0.1, gradient=0.0, gradient_before=0.0) for at in range(2, 6)],
            [4, 5],
            id="dead before the second save",
        ),
        pytest.param([save(10 * at, 9.0) for at in range(6)], [4, 5], id="every ten steps"),
        pytest.param([save(100 * at, 9.0) for at in range(6)], [4, 5], id="every hundred steps"),
        pytest.param(
            [
                *(save(at, 9.0, loss=2.0 * 10**at, gradient=5.0 * 10**at) for at in range(4)),
                *(save(at, None, loss=NAN, gradient=None, size=None) for at in range(4, 8)),
            ],
            [4, 5, 6, 7],
            id="grows until it is NaN",
        ),
        pytest.param([save(at, 0.6) for at in range(8)], [], id="not by much"),
        pytest.param([save(at, 5.0, kind=ACTING) for at in range(8)], [], id="of a policy"),
        pytest.param(
            [save(at, 5.0, kind=ACTING, size=10.0 * 2**at) for at in range(8)],
            [4, 5, 6, 7],
            id="of a policy whose weights grow tenfold",
        ),
        pytest.param([save(at, 5.0, gradient=0.1) for at in range(8)], [], id="not beyond"),
        pytest.param([save(at, 5.0, loss=2.0 * 0.5**at) for at in range(8)], [], id="falls"),
        pytest.param(
            [save(at, 5.0, loss=2.0 if at < 6 else 1.7) for at in range(12)],
            [4, 5, 6, 7],
            id="falls later",
        ),
        pytest.param(
            [save(at, 5.0, loss=2.0 if at == 0 else 90.0 if at < 3 else 1.5) for at in range(9)],
            [4, 5, 6, 7, 8],
            id="blown up, and never what it might have been",
        ),
        pytest.param(
            [save(at, 5.0, loss=2.0 if at == 0 else 90.0 if at < 3 else 0.9) for at in range(9)],
            [4],
            id="blown up, and recovered",
        ),
        pytest.param(
            [save(at, 5.0, gradient=0.1, loss=90.0 if 0 < at < 3 else 2.0) for at in range(8)],
            [4, 5, 6, 7],
            id="blown up, with clipped gradients",
        ),
        pytest.param(
            [save(at, 0.6, gradient=0.1, loss=90.0 if 0 < at < 3 else 2.0) for at in range(8)],
            [],
            id="blown up by what is no update",
        ),
        pytest.param(
            [save(at, 5.0, gradient=0.1, loss=9.0 if 0 < at < 3 else 2.0) for at in range(8)],
            [],
            id="a spike, with clipped gradients",
        ),
        pytest.param([save(0, 5.0)] + [save(at, 0.0) for at in range(1, 8)], [], id="at the first"),
        pytest.param([save(at, None) for at in range(8)], [], id="updates not known"),
        pytest.param([save(at, 5.0, loss=NAN) for at in range(8)], [], id="never a loss"),
        pytest.param([save(at, 5.0, gradient=None) for at in range(8)], [], id="no gradient known"),
        pytest.param([save(at, 5.0, size=0.0) for at in range(8)], [], id="weights of 0"),
        pytest.param([save(3, 5.0)], [], id="one step"),
        pytest.param([save(at, 1e300, gradient=1e300) for at in range(6)], [4, 5], id="huge"),
    ],
)
def test_histories(steps: list[Step], expected: list[int]) -> None:
    assert fired(judged(steps)) == expected


def test_undecided_until_five_saves_then_healthy() -> None:
    found = outcomes(LearningRateTooLarge(), [save(at, 0.01) for at in range(6)])
    assert found == [UNDECIDED] * 4 + [HEALTHY] * 2


def test_the_first_loss_that_is_known_is_the_measure() -> None:
    steps = [save(0, 5.0, loss=NAN), *(save(at, 5.0) for at in range(1, 8))]
    assert fired(judged(steps)) == [4, 5, 6, 7]


def test_one_zero_head_among_others_does_not_count(make_tensor: Any) -> None:
    """It moves by all of its size at first; the median weight does not."""

    def step(at: int) -> Step:
        known = [("a", 10.0, 0.1), ("b", 10.0, 0.1), ("head", 0.1, 0.1)]
        weights = tuple(
            Tensor(name, "worker_0", TensorSummary(l2=size, update_l2=move))
            for name, size, move in known
        )
        return Step(at, Mode.TRAIN, at, 0.0, {**save(at, 0.1).tensors, "weights": weights})

    assert not fired(judged([step(at) for at in range(8)], overshoot="0.001"))


@pytest.mark.parametrize("read", ["weights", "gradients", "losses"])
def test_says_what_is_missing(read: str) -> None:
    step = Step(0, Mode.TRAIN, 0, 0.0, {**save(0, 5.0).tensors, read: ()})
    state, verdict = LearningRateTooLarge().evaluate({}, step)
    assert (state, verdict.outcome, verdict.reason) == (
        {},
        Outcome.NOT_APPLICABLE,
        Reason.NO_TENSOR,
    )
    assert read in verdict.detail


def test_says_what_was_compared() -> None:
    verdict = judged([save(10 * at, 5.0) for at in range(5)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.CHANGED_TOO_MUCH,
        "w",
        "worker_0",
    )
    assert verdict.detail == (
        "one step changed weights such as w by 16 % of their size, and the loss went from 2 to 2"
    )
    assert dict(verdict.evidence) == {"relative_update": 0.15811, "loss": 2.0, "first_loss": 2.0}
