from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Reason, TensorSummary
from tocsin.rules import Step

from tests.unit.rules.judging import first, judged, made

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
rule = partial(made, "LossOscillating")

RANDOM = np.random.default_rng(4)
NOISE = RANDOM.standard_normal(400)
SINGLE = RANDOM.chisquare(1, 400)  # squared errors of single samples
STEPS = np.arange(400)
CALM = [2.3 - 0.01 * at for at in range(10)]
SWINGS = [1.5, 9.0] * 20


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param([*CALM, *SWINGS], 19, id="calm, then swings"),
        pytest.param([*CALM, *np.repeat(SWINGS, 3)], 22, id="slow swings"),
        pytest.param([*CALM, *[1.5, 3.0] * 20], None, id="small swings"),
        pytest.param(
            [*CALM, *[0.2] * 20, *[0.1, 3.0, 0.2] * 20], None, id="it learns all the same"
        ),
        pytest.param([*CALM, *[9.0] * 40], None, id="one jump"),
        pytest.param([*CALM, *[1.5] * 10, *[9.0] * 10, *[1.5] * 20], None, id="a hump"),
        pytest.param([*CALM, *np.linspace(2, 40, 40)], None, id="grows steadily"),
        pytest.param([2.3, *SWINGS], None, id="from the beginning"),
        pytest.param([2.3] * 60, None, id="flat"),
        pytest.param([0.0] * 60, None, id="zero"),
        pytest.param([-1.0] * 10 + [-4.0, 3.0] * 20, 19, id="negative"),
        pytest.param([*CALM, NAN, INF, *SWINGS], 31, id="not finite in between"),
        pytest.param([NAN] * 40, None, id="lost"),
        pytest.param([2.3], None, id="one save"),
        pytest.param([[2.3, 2.5]] * 10 + [[1.0, 2.0], [8.0, 10.0]] * 20, 19, id="means of batches"),
        pytest.param([np.int64(2)] * 10 + [np.int64(1), np.int64(9)] * 20, 19, id="integers"),
        pytest.param([[], TensorSummary(), *CALM, *SWINGS], 21, id="unknown at first"),
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
        pytest.param(NOISE, id="about zero"),
        pytest.param(2.3 + 0.4 * NOISE, id="label noise"),
        pytest.param(1 + 0.5 * np.sin(STEPS / 3) + 0.1 * NOISE, id="like a GAN's"),
        pytest.param(0.05 + 2.2 * 0.9**STEPS + 0.8 * (STEPS % 40 < 10), id="restarts"),
        pytest.param(0.3 + 2 * 0.95**STEPS * np.exp(NOISE / 3), id="small batches"),
    ],
)
def test_what_is_healthy(make_step: MakeStep, losses: Any) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), steps)) is None


def test_quiet_beside_a_loss_that_falls(make_step: MakeStep) -> None:
    losses = [*CALM, *SWINGS]
    both = [make_step("losses", at, {"d": 0.95**at, "g": loss}) for at, loss in enumerate(losses)]
    assert first(judged(rule(), both)) is None


def test_says_what_happened(make_step: MakeStep) -> None:
    losses = [2.5] * 10 + SWINGS
    steps = [make_step("losses", at, {"a": 2.5, "b": loss}) for at, loss in enumerate(losses)]
    verdict = judged(rule(), steps)[-1]
    assert (verdict.reason, verdict.tensor) == (Reason.OSCILLATING, "b")
    assert verdict.detail == "b swings between 1.5 and 9; it started at 2.5"
    assert dict(verdict.evidence) == {"swing": 7.5, "first": 2.5, "median": 1.5}
