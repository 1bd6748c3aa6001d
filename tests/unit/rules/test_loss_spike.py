from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Reason, TensorSummary
from tocsin.rules import Step

from tests.unit.rules.judging import made, violations

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
rule = partial(made, "LossSpike")

RANDOM = np.random.default_rng(7)
NOISE = RANDOM.standard_normal(400)
SINGLE = RANDOM.chisquare(1, 400)  # squared errors of single samples
STEPS = np.arange(400)
FALLS = [2.0 * 0.8**at + 0.3 for at in range(20)]


@pytest.mark.parametrize(
    ("losses", "parameters", "expected"),
    [
        pytest.param([*FALLS, 40.0, *FALLS], {}, [20], id="bad batch"),
        pytest.param([*FALLS, 40.0, *FALLS, 41.0], {}, [20], id="a second one is no news"),
        pytest.param([*FALLS, 4.0, *[0.3] * 9], {}, [], id="not far above the first"),
        pytest.param([*FALLS, 2.0, *[0.3] * 9], {"record": "0"}, [20], id="against the level"),
        pytest.param([*FALLS, 0.6, *[0.3] * 9], {"record": "0"}, [], id="ratio"),
        pytest.param([0.3, 0.1, 0.5] * 8 + [1.2], {"record": "0", "z": "0"}, [24], id="no z"),
        pytest.param([0.3, 0.1, 0.5] * 8 + [1.2], {"record": "0"}, [], id="z"),
        pytest.param([1.0] * 11 + [90.0], {}, [], id="too early"),
        pytest.param([1.0] * 12 + [90.0], {}, [12], id="early"),
        pytest.param([0.0] * 12 + [0.1], {}, [], id="a term that begins"),
        pytest.param([1e-3, *[0.0] * 12, 0.1], {}, [13], id="from zero"),
        pytest.param([0.0] * 40, {}, [], id="zero"),
        pytest.param([-5.0, -6.0] * 8 + [30.0], {}, [16], id="negative"),
        pytest.param([-5.0, -6.0] * 8 + [-90.0], {}, [], id="downwards"),
        pytest.param([*FALLS, NAN, INF, -INF, 40.0], {}, [23], id="not finite in between"),
        pytest.param([NAN] * 30, {}, [], id="lost"),
        pytest.param([1.0, 1.1] * 10 + [1e308], {}, [20], id="huge"),
        pytest.param([np.int64(2)] * 12 + [np.int64(70)], {}, [12], id="integers"),
        pytest.param([[1.0, 1.0]] * 12 + [[1.0, 99.0]], {}, [12], id="mean of a batch"),
        pytest.param([[], *FALLS, TensorSummary(), 40.0], {}, [22], id="unknown in between"),
        pytest.param([1.0], {}, [], id="one save"),
    ],
)
def test_when_it_fires(
    make_step: MakeStep, losses: list[Any], parameters: dict[str, str], expected: list[int]
) -> None:
    steps = [make_step("losses", 10 * at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert list(violations(rule(**parameters), steps)) == expected


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(SINGLE, id="single samples"),
        pytest.param(SINGLE * (0.1 + 0.9 * 0.98**STEPS), id="single samples, learned"),
        pytest.param(NOISE, id="about zero"),
        pytest.param(np.exp(NOISE), id="heavy tails"),
        pytest.param(1 + 0.8 * np.sin(STEPS / 3) + 0.1 * NOISE, id="like a GAN's"),
        pytest.param(0.05 + 2.2 * 0.9**STEPS + 0.8 * (STEPS % 40 < 10), id="restarts"),
        pytest.param(2.0 ** (STEPS / 10), id="grows"),
    ],
)
def test_what_is_not_a_spike(make_step: MakeStep, losses: Any) -> None:
    steps = [make_step("losses", at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert not violations(rule(), steps)


def test_says_what_happened(make_step: MakeStep) -> None:
    steps = [make_step("losses", at, {"a": 0.5, "b": 0.5, "acc": 0.9}) for at in range(12)]
    steps.append(make_step("losses", 12, {"a": 30.0, "b": 40.0, "acc": 0.8}))
    verdict = violations(rule(), steps)[12]
    assert (verdict.reason, verdict.tensor) == (Reason.ABOVE_THRESHOLD, "b")
    assert verdict.detail == "b jumped to 40 from a level of 0.5"
    assert dict(verdict.evidence) == {"loss": 40.0, "level": 0.5, "worst_before": 0.5}


def test_what_should_rise(make_step: MakeStep) -> None:
    steps = [make_step("losses", at, {"acc": 0.9 + 0.001 * (at % 2)}) for at in range(13)]
    steps.append(make_step("losses", 13, {"acc": -9.0}))
    verdict = violations(rule(window=9), steps)[13]
    assert verdict.detail == "acc jumped to -9 from a level of 0.9"
    assert dict(verdict.evidence) == {"loss": -9.0, "level": 0.9, "worst_before": 0.9}
