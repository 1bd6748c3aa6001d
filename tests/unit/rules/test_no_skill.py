from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome
from tocsin.rules import Rule
from tocsin.rules.evaluation.loss_gap import LossGap
from tocsin.rules.loss.underfitting import Underfitting
from tocsin.rules.skill.memorises import Memorises
from tocsin.rules.skill.no_skill import NoSkill
from tocsin.rules.skill.skill_lost import SkillLost

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    first,
    judged,
    outcomes,
    valued,
)

RISING = np.linspace(0, 0.6, 1000)


@pytest.mark.parametrize(
    ("skills", "expected"),
    [
        (noisy(0.0, 600), VIOLATION),
        (noisy(0.0, 600, noise=0.1), VIOLATION),
        (noisy(0.0, 600, noise=1e-4), VIOLATION),
        (noisy(0.001, 600, noise=0.001), VIOLATION),  # lucky weights, never trained
        (noisy(0.0, 190), UNDECIDED),  # patience
        (noisy(0.3, 600), HEALTHY),
        (noisy(RISING), HEALTHY),
        (noisy(0.02, 600), HEALTHY),  # little, and proved
        (noisy([0.0] * 200 + [0.3] * 400), HEALTHY),  # a late start
        ([-0.4] * 600, VIOLATION),
        ([0.0] * 600, VIOLATION),  # a dead network
    ],
)
def test_courses(skills: list[float], expected: Outcome) -> None:
    assert outcomes(NoSkill(), comparisons(skills))[-1] is expected


@pytest.mark.parametrize("seed", range(20))
def test_few_that_learn_are_ever_alarmed(seed: int) -> None:
    course = noisy(0.05, 1000, noise=0.2, seed=seed)
    assert first(judged(NoSkill(), comparisons(course))) is None


def test_it_fires_a_quarter_after_its_patience_and_a_proof_resolves_it() -> None:
    steps = list(comparisons(noisy([0.0] * 500 + [0.4] * 500)))
    verdicts = judged(NoSkill(), steps)
    at = first(verdicts)
    assert at is not None
    assert steps[at].step <= 270
    assert verdicts[-1].outcome is HEALTHY
    assert "no better than shuffled ones" in verdicts[at].detail
    assert "in the last half of the run (" in verdicts[at].detail
    assert "not below that of a constant prediction" in verdicts[at].detail


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ([50.0, 0.1], True),  # a divergence that is summed over the batch
        ([0.0, 0.0], False),
        ([50.0, 50.0], False),  # a scale, or a penalty that never fell
        ([1.0, 0.1], False),  # no larger than the loss itself
    ],
)
def test_terms_that_outweigh_the_loss_are_named(rest: list[float], expected: bool) -> None:
    course = np.linspace(*rest, 60)
    steps = [
        replace(each, tensors={**each.tensors, "losses": (valued("loss", 2.0 + more),)})
        for each, more in zip(comparisons(noisy(0.0, 600)), course, strict=True)
    ]
    detail = judged(NoSkill(), steps)[-1].detail

    assert "no better than shuffled ones" in detail
    assert ("other terms of the minimised loss fell from 96" in detail) is expected


def test_few_comparisons_count_as_much_as_many() -> None:
    """The first 400 steps are compared one by one, and then those that are saved, more rarely."""
    early = list(comparisons(noisy([0.0] * 400)))
    late = [
        replace(step, step=400 + 40 * step.step, mode_step=400 + 40 * step.step)
        for step in comparisons([0.4] * 41, 1)
    ]
    verdicts = judged(NoSkill(), [*early, *late])
    assert first(verdicts) is not None
    assert verdicts[-1].outcome is HEALTHY


@pytest.mark.parametrize("rule", [NoSkill(), SkillLost(), Memorises(), LossGap(), Underfitting()])
@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.EVAL])
def test_what_an_earlier_version_kept_is_no_error(rule: Rule, mode: Mode) -> None:
    """Its blocks had other names: those of the comparisons from here on count."""
    both = [*comparisons(noisy(0.3, 300)), *comparisons(noisy(0.3, 300), mode=mode)]
    read = dict.fromkeys(rule.reads().tensors, ())
    steps = [replace(step, tensors={**read, **step.tensors}) for step in both]
    state: Any = {}
    for step in steps[: len(steps) // 2]:
        state, _ = rule.evaluate(state, step)
    state = as_earlier(state)
    for step in steps:
        state, verdict = rule.evaluate(state, step)
        assert not verdict.violation


def as_earlier(kept: Any) -> Any:
    """A state as it was before saves counted: blocks of equally many comparisons."""
    if not isinstance(kept, dict):
        return kept
    if "sums" not in kept:
        return {key: as_earlier(each) for key, each in kept.items()}
    blocks = [sums[1:] for sums in kept["sums"]]
    others = {key: each for key, each in kept.items() if key not in ("parts", "span", "sums")}
    return {**others, "width": 8, "blocks": blocks}


@pytest.mark.parametrize("every", [1, 5, 20])
def test_the_save_interval_does_not_matter(every: int) -> None:
    for skills, expected in ((noisy(0.0, 800), VIOLATION), (noisy(0.3, 800), HEALTHY)):
        assert outcomes(NoSkill(), comparisons(skills, every))[-1] is expected


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_loss_does_not_matter(scale: float) -> None:
    for skills in (noisy(0.0, 600), noisy(0.3, 600)):
        plain = judged(NoSkill(), comparisons(skills))
        assert [v.outcome for v in judged(NoSkill(), comparisons(skills, scale=scale))] == [
            v.outcome for v in plain
        ]


@pytest.mark.parametrize("constant", [0.0, math.nan])
def test_labels_that_are_all_the_same_cannot_be_paired(constant: float) -> None:
    """As in a GAN, where a batch is all real or all false."""
    steps = comparisons([0.0] * 600, constant=constant)
    assert set(outcomes(NoSkill(), steps)) == {NOT_APPLICABLE}


@pytest.mark.parametrize("loss", [math.nan, math.inf, 0.0])
def test_losses_without_a_share_are_passed_over(loss: float) -> None:
    assert set(outcomes(NoSkill(), comparisons([0.1] * 300, loss=loss))) == {NOT_APPLICABLE}


def test_evaluations_do_not_count() -> None:
    steps = comparisons(noisy(0.0, 600), mode=Mode.EVAL)
    assert set(outcomes(NoSkill(), steps)) == {NOT_APPLICABLE}


def test_each_call_of_a_loss_is_judged() -> None:
    good = comparisons(noisy(0.5, 600), site="a")
    bad = comparisons(noisy(0.0, 600), site="b")
    steps = [s for pair in zip(good, bad, strict=True) for s in pair]
    verdicts = judged(NoSkill(), steps)
    assert {verdicts[at].tensor for at in range(len(verdicts)) if verdicts[at].violation} == {
        "b/skill"
    }
