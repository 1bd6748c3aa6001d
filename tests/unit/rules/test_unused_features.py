from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, made, valued


def scalars(*values: float, worker: str = "worker_0") -> tuple[Tensor, ...]:
    return tuple(
        valued(f"feature_importance/weight/f{at}", [value], worker)
        for at, value in enumerate(values)
    )


def vector(used: int, unused: int) -> tuple[Tensor, ...]:
    return (valued("feature_importance/weight", [1.0] * used + [0.0] * unused),)


def shap(features: int) -> tuple[Tensor, ...]:
    return tuple(valued(f"average_shap/f{at}", [0.1]) for at in range(features))


def judged(
    found: tuple[Tensor, ...], others: tuple[Tensor, ...] = (), at: int = 200, **parameters: Any
) -> Verdict:
    rule = made("UnusedFeatures", **parameters)
    step = Step(at, Mode.GLOBAL, at, 0.0, {"importances": found, "shap": others})
    state, verdict = rule.evaluate({}, step)
    assert state == {}
    return verdict


@pytest.mark.parametrize(
    ("found", "others", "expected"),
    [
        (vector(1, 19), (), VIOLATION),  # exactly 95 %
        (vector(1, 18), (), HEALTHY),
        (vector(20, 0), (), HEALTHY),
        (vector(0, 30), (), VIOLATION),
        (scalars(1.0), shap(30), VIOLATION),
        (scalars(0.5, 0.5), shap(30), HEALTHY),
        (scalars(1.0), shap(1), HEALTHY),
        (scalars(1.0, 0.0), (), HEALTHY),
        (scalars(1.0, *[0.0] * 39), (), VIOLATION),
        (scalars(1.0, *[np.nan] * 39), (), NOT_APPLICABLE),
        (scalars(1.0), (), NOT_APPLICABLE),  # of how many?
        ((), shap(30), NOT_APPLICABLE),
        ((valued("feature_importance/weight", []),), (), NOT_APPLICABLE),
    ],
)
def test_one_step(found: tuple[Tensor, ...], others: tuple[Tensor, ...], expected: Outcome) -> None:
    assert judged(found, others).outcome is expected


@pytest.mark.parametrize(
    ("at", "features", "expected"),
    [(0, 40, UNDECIDED), (49, 40, UNDECIDED), (50, 40, VIOLATION), (299, 300, UNDECIDED),
     (300, 300, VIOLATION)],
)  # fmt: skip
def test_there_must_have_been_splits_for_all(at: int, features: int, expected: Outcome) -> None:
    assert judged(vector(1, features - 1), at=at).outcome is expected


def test_less_is_enough_where_it_is_asked_for() -> None:
    assert judged(vector(1, 1), at=10, threshold="0.5", rounds="10").outcome is VIOLATION


def test_what_it_says() -> None:
    verdict = judged(scalars(1.0), shap(40))
    assert (verdict.reason, verdict.tensor) == (
        Reason.ABOVE_THRESHOLD,
        "feature_importance/weight/f0",
    )
    assert verdict.detail == (
        "39 of 40 features are not used after 200 rounds; the most important is "
        "feature_importance/weight/f0"
    )
    assert dict(verdict.evidence) == {"unused_share": 0.975, "features": 40}


def test_the_worker_is_named() -> None:
    found = (*scalars(*[1.0] * 30), *scalars(1.0, *[0.0] * 29, worker="worker_1"))
    assert judged(found).worker == "worker_1"
