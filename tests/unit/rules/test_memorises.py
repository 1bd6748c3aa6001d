from __future__ import annotations

from collections.abc import Iterator

import pytest
from tocsin.model import Mode, Outcome
from tocsin.rules import Step
from tocsin.rules.skill.memorises import Memorises

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import HEALTHY, UNDECIDED, VIOLATION, judged, outcomes


def run(
    train: list[float], evaluated: list[float], samples: int = 64, constant: float = 2.0
) -> Iterator[Step]:
    """An evaluation of two batches after every 50 training steps."""
    trained = list(comparisons(noisy(train)))
    how = {"mode": Mode.EVAL, "samples": samples, "site": "other", "constant": constant}
    tested = list(comparisons(noisy(evaluated), 2, **how))
    for at, step in enumerate(trained):
        yield step
        if at % 5 == 4 and at // 5 < len(tested):
            yield tested[at // 5]


@pytest.mark.parametrize(
    ("train", "evaluated", "samples", "expected"),
    [
        ([0.8] * 1000, [0.0] * 40, 64, VIOLATION),
        ([0.8] * 1000, [-0.6] * 40, 64, VIOLATION),  # sure, and wrong
        ([0.8] * 1000, [0.4] * 40, 64, HEALTHY),
        ([0.0] * 1000, [0.0] * 40, 64, HEALTHY),  # nothing known in TRAIN: NoSkill
        ([0.8] * 1000, [0.0] * 40, 1, UNDECIDED),  # too few samples
        ([0.8] * 150, [0.0] * 6, 64, UNDECIDED),  # patience
        ([0.8] * 2000, [0.0] * 20 + [0.6] * 60, 64, HEALTHY),  # it generalises late
    ],
)
def test_courses(
    train: list[float], evaluated: list[float], samples: int, expected: Outcome
) -> None:
    decided = outcomes(Memorises(), run(train, evaluated, samples))[5::6]  # the evaluations
    assert decided[-1] is expected


@pytest.mark.parametrize(("constant", "expected"), [(1.3, VIOLATION), (2.0, HEALTHY)])
def test_a_constant_guess_decides_where_skills_vary(constant: float, expected: Outcome) -> None:
    steps = run([0.8] * 1000, [0.3, 0.3, -0.3, -0.3] * 10, 64, constant)
    assert outcomes(Memorises(), steps)[-1] is expected


def test_it_says_both_skills() -> None:
    verdicts = judged(Memorises(), run([0.8] * 1000, [0.0] * 40))
    (detail, *_) = [verdict.detail for verdict in verdicts if verdict.violation]
    assert "% in training" in detail
    assert "% in evaluations" in detail


def test_training_alone_is_undecided() -> None:
    assert set(outcomes(Memorises(), comparisons(noisy(0.8, 400)))) == {UNDECIDED}


@pytest.mark.parametrize(("skill", "contradicts"), [(-0.6, True), (0.0, False)])
def test_it_says_where_classes_are_numbered_differently(skill: float, contradicts: bool) -> None:
    last = judged(Memorises(), run([0.8] * 1000, [skill] * 40))[-1]
    assert last.violation
    assert last.detail.endswith("numbered or ordered differently there") is contradicts
