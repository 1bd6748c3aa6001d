from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import first, judged, made

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
MakeTensor = Callable[..., Tensor]
rule = partial(made, "LossDiverging")

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.standard_normal(400)
SINGLE = RANDOM.chisquare(1, 400)  # squared errors of single samples
STEPS = np.arange(400)
FALLS = [2.3 * 0.9**at + 0.1 for at in range(40)]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param([2.3, *[20.0, 17.0, 25.0] * 5], 8, id="jumps at once"),
        pytest.param([2.3 * 1.5**at for at in range(40)], 15, id="grows without end"),
        pytest.param([2.6, 3.2, 3.6, 4.9, 8.9, 11, 13, 17, *[26.8] * 20], 12, id="grows, is held"),
        pytest.param([*FALLS, *[30.0] * 10], 47, id="falls, then explodes"),
        pytest.param([*FALLS, *[2.3] * 10], 47, id="falls and comes back"),
        pytest.param([*FALLS, *[1.2] * 30], None, id="comes back by half"),
        pytest.param([*FALLS, 50.0, *FALLS], None, id="one spike"),
        pytest.param([2.3] * 40, None, id="flat"),
        pytest.param([2.3, *[5.0] * 40], None, id="doubles"),
        pytest.param([0.0] * 20, None, id="zero"),
        pytest.param([0.0, *[1.0] * 20], 8, id="from zero up"),
        pytest.param([-10.0 - at for at in range(40)], None, id="negative, falls"),
        pytest.param([-0.7 * (at + 1) for at in range(400)], 273, id="the wrong sign: linear"),
        pytest.param([7e4 - 30 * at**7 for at in range(40)], 16, id="the wrong sign: at once"),
        pytest.param([-(1.2**at) for at in range(100)], 33, id="the wrong sign: exponential"),
        pytest.param([*FALLS, *[-(10.0**at) for at in range(20)]], 47, id="the sign turns"),
        pytest.param([-5 * math.log(at + 1) for at in range(400)], None, id="a likelihood"),
        pytest.param([-1 + 0.98 * 0.98**at for at in range(400)], None, id="a likeness"),
        pytest.param([-9 + 9 / (1 + at / 50) for at in range(400)], None, id="information"),
        pytest.param([-1.0, -1.1, -1.0, *[40.0] * 20], 10, id="negative, rises"),
        pytest.param([1.0, NAN, NAN, NAN, 1.0], 3, id="lost"),
        pytest.param([NAN] * 5, 2, id="never found"),
        pytest.param([1.0, NAN, NAN] * 10, None, id="lost for two of three"),
        pytest.param([1.0, INF, -INF, INF], 3, id="infinite"),
        pytest.param([*FALLS, INF, *FALLS], None, id="infinite once"),
        pytest.param([1e300 * 10.0**at for at in range(8)] + [1.7e308] * 12, 14, id="huge"),
        pytest.param([2.3], None, id="one save"),
        pytest.param([np.int64(1), *[np.uint8(9)] * 12], 8, id="integers"),
        pytest.param([[2.0, 2.6], *[[20.0, 30.0]] * 12], 8, id="means of batches"),
        pytest.param([[], TensorSummary(), 2.3, *[20.0] * 9], 10, id="unknown at first"),
    ],
)
def test_when_it_fires(make_step: MakeStep, losses: list[Any], expected: int | None) -> None:
    steps = [make_step("losses", 10 * at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) == expected


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(SINGLE, id="single samples"),
        pytest.param(SINGLE * (0.1 + 0.9 * 0.98**STEPS), id="single samples, learned"),
        pytest.param([1e-4, *SINGLE], id="single samples, a lucky first"),
        pytest.param(NOISE, id="about zero"),
        pytest.param(np.exp(NOISE), id="heavy tails"),
        pytest.param(2.3 + 0.2 * NOISE, id="label noise"),
        pytest.param(1 + 0.5 * np.sin(STEPS / 15) + 0.1 * NOISE, id="like a GAN's"),
        pytest.param(0.05 + 2.2 * 0.9**STEPS + 0.8 * (STEPS % 100 < 10), id="restarts"),
        pytest.param(2.3 + 0.3 * np.sin(np.minimum(STEPS / 10, 1.5)) - STEPS / 200, id="warm-up"),
    ],
)
def test_what_is_healthy(make_step: MakeStep, losses: Any) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) is None


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([0.1] * 20, Outcome.HEALTHY, id="below its start"),
        pytest.param([1.0] * 20, Outcome.UNDECIDED, id="above its start"),
        pytest.param([4.0] * 20, Outcome.VIOLATION, id="as high as before"),
    ],
)
def test_a_loss_that_has_risen(make_step: MakeStep, later: list[float], expected: Outcome) -> None:
    """As where a part of it is weighted more and more."""
    losses = [0.5, *[3.5] * 12, *later]
    steps = [make_step("losses", 10 * at, {"loss": loss}) for at, loss in enumerate(losses)]
    outcomes = [verdict.outcome for verdict in judged(rule(), steps)]
    assert Outcome.VIOLATION in outcomes
    assert outcomes[-1] is expected


def test_losses_that_pull_against_each_other(make_step: MakeStep) -> None:
    steps = [
        make_step("losses", at, {"d": 1.4 * 0.95**at, "g": 0.7 + 0.2 * at}) for at in range(60)
    ]
    assert first(judged(rule(), steps)) is None
    alone = [make_step("losses", at, {"g": 0.7 + 0.2 * at}) for at in range(60)]
    assert first(judged(rule(), alone)) is not None


def test_modes_may_be_unknown(make_step: MakeStep) -> None:
    losses = [2.3, *[20.0] * 10]
    steps = [
        make_step("losses", at, {"loss": loss}, mode=Mode.GLOBAL) for at, loss in enumerate(losses)
    ]
    assert first(judged(rule(), steps)) == 8


def test_what_should_rise(make_step: MakeStep) -> None:
    losses = [make_step("losses", at, {"score": 1.0 if at == 0 else -20.0}) for at in range(12)]
    assert first(judged(rule(), losses)) is None
    assert first(judged(rule(direction="rises"), losses)) == 8


def test_says_what_happened(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    def at(step: int, loss: float) -> Step:
        found = [make_tensor("a", 9.0), make_tensor("b", 2.5), make_tensor("b", loss, worker="w1")]
        return make_step("losses", step, found)

    verdict = judged(rule(), [at(step, 2.5 if step == 0 else 37.5) for step in range(9)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.INCREASING, "b", "w1")
    assert verdict.detail == "the median of 8 saves of b is 20; it started at 2.5"
    assert dict(verdict.evidence) == {"lowest_lately": 20.0, "loss": 20.0, "first": 2.5}

    back = [make_step("losses", step, {"c": loss}) for step, loss in enumerate([*FALLS, *FALLS])]
    back += [make_step("losses", 80 + step, {"c": 2.4}) for step in range(8)]
    detail = judged(rule(), back)[-1].detail
    assert detail.startswith("the median of 8 saves of c is 2.4; it started at 2.4 and had fallen")

    lost = judged(rule(), [make_step("losses", step, {"d": NAN}) for step in range(3)])[-1]
    assert lost.reason is Reason.NOT_FINITE
    assert lost.detail == "d is nan: not finite for 3 consecutive saves"

    falls = [make_step("losses", step, {"e": -(1.2**step)}) for step in range(60)]
    detail = judged(rule(), falls)[-1].detail
    assert "still falls as fast as before" in detail
    assert detail.endswith(
        "the sign of the loss or of one of its terms is wrong, or nothing bounds it below"
    )
