from __future__ import annotations

import numpy as np
import pytest
from tocsin.model import Mode, Outcome
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
)


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        ([0.6] * 500 + [0.0] * 500, VIOLATION),
        ([0.6] * 500 + [-0.5] * 500, VIOLATION),
        ([0.6] * 500 + [0.1] * 500, VIOLATION),  # less than a quarter of it
        ([0.6] * 500 + [0.3] * 500, HEALTHY),
        ([0.6] * 1000, HEALTHY),
        ([0.08] * 500 + [0.0] * 500, HEALTHY),  # never had much
        ([0.0] * 1000, HEALTHY),
        ([0.6] * 20, UNDECIDED),
        ([0.6] * 400 + [0.0] * 200 + [0.6] * 400, HEALTHY),  # resolved
        ([0.6] * 500 + [0.0] * 10 + [0.6] * 490, HEALTHY),
        (np.linspace(0, 0.8, 1000).tolist(), HEALTHY),
    ],
)
def test_courses(course: list[float], expected: Outcome) -> None:
    assert outcomes(SkillLost(), comparisons(noisy(course)))[-1] is expected


def test_it_fires_within_a_quarter_of_the_run() -> None:
    steps = list(comparisons(noisy([0.6] * 500 + [0.0] * 500)))
    verdicts = judged(SkillLost(), steps)
    at = first(verdicts)
    assert at is not None
    assert 500 < steps[at].step <= 700
    assert "its best was" in verdicts[at].detail


def test_noise_alone_does_not_fire() -> None:
    for seed in range(10):
        steps = comparisons(noisy(0.2, 1000, noise=0.3, seed=seed))
        assert first(judged(SkillLost(), steps)) is None


def test_evaluations_do_not_count() -> None:
    steps = comparisons(noisy([0.6] * 300 + [0.0] * 300), mode=Mode.EVAL)
    assert set(outcomes(SkillLost(), steps)) == {NOT_APPLICABLE}
