from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Rule, Step, Tensor

from tests.unit.rules.comparing import comparisons
from tests.unit.rules.judging import decided, made

NAN, INF = float("nan"), float("inf")
MakeStep = Callable[..., Step]
rule = partial(made, "Underfitting")

RANDOM = np.random.default_rng(11)
NOISE = RANDOM.standard_normal(200)
SINGLE = RANDOM.chisquare(1, 200)  # squared errors of single samples
STEPS = np.arange(200)


def first(rule: Rule, steps: Iterable[Step]) -> int | None:
    """The number of the first step in violation."""
    return next((at for at, found in decided(rule, steps).items() if found.violation), None)


@pytest.mark.parametrize(
    ("losses", "parameters", "expected"),
    [
        pytest.param([2.3] * 60, {}, 500, id="flat"),
        pytest.param(2.3 + 0.05 * NOISE, {}, 500, id="flat, with noise"),
        pytest.param(2.3 - 0.002 * np.minimum(STEPS, 40), {}, 500, id="falls by next to nothing"),
        pytest.param(2.3 + 0.01 * STEPS, {}, 500, id="rises"),
        pytest.param([2.3] * 50, {}, None, id="too early"),
        pytest.param([2.3] * 50, {"patience": "200"}, 200, id="patience"),
        pytest.param([2.3] * 30, {"patience": "10"}, 150, id="too few saves"),
        pytest.param(2.3 * 0.9**STEPS + 0.3, {}, None, id="learns and converges"),
        pytest.param([2.3, 0.3] + [0.31] * 98, {}, None, id="learns at once"),
        pytest.param([2.3] * 40 + [2.1] * 60, {}, None, id="learns late"),
        pytest.param(2.3 * 0.998**STEPS, {}, None, id="learns slowly"),
        pytest.param([2.3] * 20 + [2.2] * 40, {"min_decrease_percent": "4"}, None, id="percent"),
        pytest.param([2.3] * 20 + [1.5] + [2.3] * 60, {}, 500, id="one lucky batch"),
        pytest.param([1.0, *[2.0] * 59], {}, 500, id="a lucky first"),
        pytest.param(SINGLE, {}, None, id="single samples"),
        pytest.param(NOISE, {}, None, id="about zero"),
        pytest.param([-1.0] * 60, {}, 500, id="negative, flat"),
        pytest.param(-90 + 0.1 * NOISE, {}, 500, id="negative, flat, with noise"),
        pytest.param(-90 - np.minimum(STEPS, 20) / 10 + 0.1 * NOISE, {}, None, id="far below 0"),
        pytest.param(-1.0 - STEPS / 100, {}, None, id="negative, falls"),
        pytest.param([0.0] * 60, {}, None, id="zero has nowhere to fall"),
        pytest.param([NAN] * 60, {}, None, id="lost"),
        pytest.param([NAN, INF, *[2.3] * 60], {}, 500, id="lost at first"),
        pytest.param([2.3] * 30 + [NAN] + [2.3] * 30, {}, 500, id="NaN in between"),
        pytest.param([[2.0, 2.6]] * 60, {}, 500, id="means of batches"),
        pytest.param([np.int64(2)] * 60, {}, 500, id="integers"),
        pytest.param([[], TensorSummary(), *[2.3] * 60], {}, 520, id="unknown at first"),
    ],
)
def test_when_it_fires(
    make_step: MakeStep, losses: Any, parameters: dict[str, str], expected: int | None
) -> None:
    steps = [make_step("losses", 10 * at, {"loss": loss}) for at, loss in enumerate(losses)]
    assert first(rule(**parameters), steps) == expected


def runs(make_step: MakeStep, train: Any, validation: Any) -> list[Step]:
    """An evaluation before each step of training."""
    steps = []
    for at, (trained, evaluated) in enumerate(zip(train, validation, strict=True)):
        found = {"loss": evaluated}
        steps.append(make_step("losses", 20 * at, found, mode=Mode.EVAL, mode_step=10 * at))
        steps.append(make_step("losses", 20 * at + 10, {"loss": trained}, mode_step=10 * at))
    return steps


@pytest.mark.parametrize(
    ("train", "validation", "expected"),
    [
        pytest.param([2.3] * 60, [2.3] * 60, 610, id="neither falls"),
        pytest.param([2.3] * 60, [2.3 * 0.98**at for at in range(60)], None, id="validation falls"),
        pytest.param([2.3 * 0.98**at for at in range(60)], [2.3] * 60, None, id="training falls"),
        pytest.param([2.3] * 60, [2.3 * 1.02**at for at in range(60)], 610, id="one rises"),
    ],
)
def test_training_and_validation(
    make_step: MakeStep, train: Any, validation: Any, expected: int | None
) -> None:
    assert first(rule(), runs(make_step, train, validation)) == expected


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param({"a": [2.3] * 60, "b": [1.0] * 60}, 500, id="both flat"),
        pytest.param({"a": [2.3] * 60, "b": [0.9**at for at in range(60)]}, None, id="one falls"),
        pytest.param({"d": [1.4] * 60, "g": [0.7 + 0.1 * at for at in range(60)]}, None, id="GAN"),
    ],
)
def test_several_losses(make_step: MakeStep, losses: dict[str, Any], expected: int | None) -> None:
    steps = [
        make_step("losses", 10 * at, {name: series[at] for name, series in losses.items()})
        for at in range(60)
    ]
    assert first(rule(), steps) == expected


def test_says_what_happened(make_step: MakeStep) -> None:
    steps = [make_step("losses", 10 * at, {"loss": 2.3 if at < 9 else 2.25}) for at in range(51)]
    verdict = decided(rule(), steps)[500]
    assert (verdict.reason, verdict.tensor) == (Reason.NOT_DECREASING, "loss")
    assert verdict.detail == "loss never fell by 5 %: it started at 2.3, its best is 2.25"
    assert dict(verdict.evidence) == {
        "decrease_percent": pytest.approx(2.17, abs=0.01),
        "best": 2.25,
        "first": 2.3,
        "steps": 500,
    }


def test_predictions_are_not_judged(make_step: MakeStep) -> None:
    state, verdict = rule().evaluate({}, make_step("losses", 0, {"loss": 1.0}, mode=Mode.PREDICT))
    assert (state, verdict.outcome) == ({}, Outcome.NOT_APPLICABLE)


@pytest.mark.parametrize(
    ("train", "evaluated", "expected"),
    [
        pytest.param(lambda at: 1.0, lambda at: 1.0, 300, id="stays"),
        pytest.param(lambda at: 1.2 if at < 5 else 1.0, lambda at: 1.0, None, id="TRAIN fell"),
        pytest.param(lambda at: 1.0, lambda at: 0.9 if at > 20 else 1.0, None, id="EVAL falls"),
        pytest.param(lambda at: 1.0, lambda at: 1 + 0.05 * NOISE[at], 300, id="EVAL is noisy"),
        pytest.param(lambda at: 1.0, lambda at: 1 - at / 300, None, id="EVAL falls slowly"),
        pytest.param(lambda at: 1.0, lambda at: 1 + at / 100, 300, id="EVAL rises"),
        pytest.param(lambda at: 1.0, None, None, id="no evaluations: too noisy"),
        pytest.param(lambda at: 1.0 if at < 28 else 0.5, None, None, id="late"),
        pytest.param(lambda at: -1.0, None, None, id="negative"),
    ],
)
def test_stays_whatever_the_noise(
    make_step: MakeStep,
    train: Callable[[int], float],
    evaluated: Callable[[int], float] | None,
    expected: int | None,
) -> None:
    """Noise of a seventh of the loss: some medians of eight saves have fallen by a tenth."""
    steps = []
    for at in range(80):
        loss = {"loss": train(at) + 0.15 * NOISE[at]}
        steps.append(make_step("losses", 11 * at, loss, mode_step=10 * at))
        if evaluated and at % 6 == 5:
            found = {"loss": evaluated(at)}
            steps.append(make_step("losses", 11 * at + 1, found, mode=Mode.EVAL, mode_step=at // 6))
    assert first(rule(), steps) == (expected and 11 * expected // 10)


def test_it_stays_until_a_loss_has_clearly_fallen(make_step: MakeStep) -> None:
    """Chance alone, by which medians fall and means may have fallen, does not take it back."""
    steps, luck = [], [1.0] * 32 + [0.95] * 8 + [1.0] * 40
    for at in range(80):
        loss = {"loss": luck[at] + 0.15 * NOISE[at]}
        steps.append(make_step("losses", 11 * at, loss, mode_step=10 * at))
        if at % 6 == 5:
            found = {"loss": 1.0 if at < 60 else 0.5}
            steps.append(make_step("losses", 11 * at + 1, found, mode=Mode.EVAL, mode_step=at // 6))
    found = decided(rule(), steps)
    since = min(at for at, verdict in found.items() if verdict.violation)
    healthy = [at for at, verdict in found.items() if verdict.outcome is Outcome.HEALTHY]
    assert not [at for at in healthy if since <= at < 11 * 66]
    assert found[max(found)].outcome is Outcome.HEALTHY


MSE = "mse_loss"


@pytest.mark.parametrize(
    ("skills", "kind", "expected"),
    [
        pytest.param([0.02] * 50 + [0.3] * 750, MSE, None, id="grows: the loss is mostly noise"),
        pytest.param([*np.linspace(0, 0.12, 30), *[0.12] * 770], MSE, None, id="grows soon"),
        pytest.param([0.01] * 50 + [0.05] * 750, MSE, None, id="grows a little: of a denoiser"),
        pytest.param([0.3] * 800, MSE, 300, id="is there from the start, and does not grow"),
        pytest.param([0.3] * 800, "cross_entropy", None, id="of a model that was trained before"),
        pytest.param([0.8] * 800, MSE, None, id="of numbers that were learned before"),
        pytest.param([0.05] * 800, "cross_entropy", 300, id="little"),
        pytest.param([0.0] * 800, MSE, 300, id="none"),
        pytest.param([0.3] * 50 + [0.0] * 750, MSE, 300, id="is lost"),
    ],
)
def test_skill_that_grows_is_learning(
    make_step: MakeStep, skills: list[float], kind: str, expected: int | None
) -> None:
    steps = []
    for at, compared in enumerate(comparisons(skills, kind=kind)):
        found = make_step("losses", 11 * at, {"loss": 1 + 0.15 * NOISE[at]}, mode_step=10 * at)
        steps.append(replace(found, tensors={**found.tensors, **compared.tensors}))
        if at % 6 == 5:
            found = make_step("losses", 11 * at + 1, {"loss": 1.0}, mode=Mode.EVAL, mode_step=at)
            steps.append(found)
    assert first(rule(), steps) == (expected and 11 * expected // 10)


def test_one_loss_that_falls_is_enough(make_step: MakeStep) -> None:
    steps = [
        make_step("losses", 10 * at, {"a": 1 + 0.15 * NOISE[at], "b": 0.8 ** min(at, 5)})
        for at in range(80)
    ]
    assert first(rule(), steps) is None


def test_a_run_that_is_seen_late_is_not_judged_at_once(make_step: MakeStep) -> None:
    steps = [make_step("losses", 10_000 + at, {"loss": 1 + 0.03 * NOISE[at]}) for at in range(80)]
    assert first(rule(), steps) is None
    assert first(rule(patience="60"), steps) == 10_060


@pytest.mark.parametrize(
    ("means", "size", "expected"),
    [
        pytest.param([2.3] * 10 + [2.0] * 60, 100, None, id="falls between rare saves"),
        pytest.param([2.3] * 10 + [2.0] * 60, 10, 500, id="a few lucky batches"),
        pytest.param([2.3] * 70, 100, 500, id="flat between them"),
    ],
)
def test_losses_between_saves(
    make_step: MakeStep, means: list[float], size: int, expected: int | None
) -> None:
    steps = []
    for at, mean in enumerate(means):
        found = make_step("losses", 10 * at, {"loss": 2.3})
        summary = TensorSummary(mean=mean, size=size)
        between = (Tensor("interval/loss", "worker_0", summary, kind="loss"),)
        steps.append(replace(found, tensors={**found.tensors, "between": between}))
    assert first(rule(), steps) == expected
