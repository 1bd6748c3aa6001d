from __future__ import annotations

import math

import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients.learning_rate_too_small import LearningRateTooSmall

from tests.unit.rules.judging import first, judging

NAN = float("nan")
judged = judging("LearningRateTooSmall")


def save(
    at: int,
    move: float | None,
    *,
    gradient: float | None = 1.0,
    loss: float | None = 2.0,
    size: float = 10.0,
    mode: Mode = Mode.TRAIN,
) -> Step:
    """A step at which one weight of norm ``size`` has moved by ``move`` since the save before."""
    before = (Tensor("w", "worker_0", TensorSummary(l2=size)),)
    weight = Tensor("w", "worker_0", TensorSummary(l2=size, update_l2=move), previous=before)
    losses = TensorSummary(nan=int(loss is not None and math.isnan(loss)), mean=loss)
    found = {
        "weights": (weight,),
        "gradients": (Tensor("gradient/w", "worker_0", TensorSummary(l2=gradient)),),
        "losses": (Tensor("loss", "worker_0", losses),),
    }
    return Step(at, mode, at, 1000.0 + at, found)


@pytest.mark.parametrize("interval", [1, 10, 100])
@pytest.mark.parametrize(("move", "expected"), [(1e-5, 20), (1.9e-4, 20), (2e-4, None), (1, None)])
def test_steps_that_can_take_nothing_away(interval: int, move: float, expected: int | None) -> None:
    """A step moves by ``move``, of a loss of 2.0: the limit is at 1e-4 x 2.0."""
    steps = [save(at * interval, move * interval) for at in range(40)]
    assert first(judged(steps)) == expected


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([save(at, 1e-6 * at) for at in range(200)], id="long warm-up"),
        pytest.param(
            [save(at, 1e-2 if at < 10 else 1e-6) for at in range(200)], id="decays after a while"
        ),
        pytest.param(
            [save(at, 1e-4 * math.cos(at / 16) ** 2) for at in range(26)], id="end of a schedule"
        ),
        pytest.param(
            [save(at, 1e-5, loss=2.0 * 0.99**at) for at in range(40)], id="the loss falls"
        ),
        pytest.param(
            [save(at, 1e-5, loss=2.0 - 4e-3 * at) for at in range(40)], id="it falls by 3 %"
        ),
        pytest.param([save(at, 1e-5, gradient=1e-3) for at in range(40)], id="vanishing gradient"),
        pytest.param([save(at, 0.0) for at in range(40)], id="frozen"),
        pytest.param(
            [save(at, 0.0 if at % 8 else 1e-2) for at in range(200)], id="accumulated gradients"
        ),
        pytest.param([save(at, 1e-5, loss=0.0) for at in range(40)], id="no loss left"),
        pytest.param([save(at, 1e-5, loss=NAN) for at in range(40)], id="loss is NaN"),
        pytest.param([save(at, None) for at in range(40)], id="updates not known"),
        pytest.param([save(at, 1e-5, gradient=None) for at in range(40)], id="gradients are NaN"),
        pytest.param([save(at, 1e-5, size=0.0) for at in range(40)], id="weights of 0"),
        pytest.param([save(7, 1e-5)], id="one step"),
        pytest.param([save(at, 1e-5) for at in range(20)], id="too few"),
    ],
)
def test_is_quiet(steps: list[Step]) -> None:
    verdicts = judged(steps)
    assert first(verdicts) is None
    assert verdicts[0].outcome is Outcome.UNDECIDED


def test_a_warm_up_that_is_over_and_was_all_too_short_is_told() -> None:
    steps = [save(at, 1e-5 * min(1.0, at / 12)) for at in range(60)]
    assert first(judged(steps)) is not None


def test_noise_is_no_fall() -> None:
    """The loss falls by 3 %, less than its noise."""
    losses = [2.0 - 2e-3 * at + 0.1 * (-1) ** at for at in range(40)]
    assert first(judged([save(at, 1e-5, loss=loss) for at, loss in enumerate(losses)])) == 20


def test_an_alarm_is_taken_back_where_the_loss_falls_later() -> None:
    steps = [save(at, 1e-5, loss=2.0 - 2e-3 * max(0, at - 25)) for at in range(60)]
    verdicts = judged(steps)
    assert first(verdicts) == 20
    assert {verdict.outcome for verdict in verdicts[-5:]} == {Outcome.HEALTHY}
    assert LearningRateTooSmall.options["resolve"] == 5


def test_a_run_that_once_moved_well_stays_healthy() -> None:
    verdicts = judged([save(at, 1e-2 if at < 10 else 1e-6) for at in range(100)])
    assert {verdict.outcome for verdict in verdicts[40:]} == {Outcome.HEALTHY}


def test_negative_losses_have_a_size_too() -> None:
    assert first(judged([save(at, 1e-5, loss=-2.0) for at in range(40)])) == 20


def test_gaps_and_duplicates_do_not_matter() -> None:
    places = [0, 1, 1, 5, 3, *range(10, 60)]
    assert first(judged([save(at, 1e-5) for at in places])) == 20


@pytest.mark.parametrize("read", ["weights", "gradients", "losses"])
def test_says_what_is_missing(read: str) -> None:
    step = save(0, 1e-5)
    found = {**step.tensors, read: ()}
    rule = LearningRateTooSmall()
    state, verdict = rule.evaluate({}, Step(0, Mode.TRAIN, 0, 0.0, found))
    assert (state, verdict.outcome, verdict.reason) == (
        {},
        Outcome.NOT_APPLICABLE,
        Reason.NO_TENSOR,
    )
    assert read in verdict.detail


def test_says_what_was_compared() -> None:
    verdict = judged([save(10 * at, 1e-4) for at in range(21)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.CHANGED_TOO_LITTLE,
        "w",
        "worker_0",
    )
    assert verdict.detail == (
        "in 20 saves the loss went from 2 to 2; one step reduces it by at most 5e-06 of its "
        "value; w changed by 1e-05 of its size in 10 steps"
    )
    assert dict(verdict.evidence) == {
        "gain": pytest.approx(5e-6),
        "threshold": 1e-4,
        "relative_update": pytest.approx(1e-5),
    }
