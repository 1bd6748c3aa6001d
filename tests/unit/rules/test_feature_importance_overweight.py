from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    made,
    outcomes,
    valued,
)


def weights(
    values: Mapping[str, Any] | Iterable[float], *, whole: bool = True
) -> tuple[Tensor, ...]:
    if not isinstance(values, Mapping):
        values = {f"f{at}": [value] for at, value in enumerate(values)}
    return tuple(
        replace(each, value=each.value if whole else None)
        for name, value in values.items()
        for each in [valued(f"feature_importance/weight/{name}", value)]
    )


def step(found: tuple[Tensor, ...], number: int = 0, features: int = 0) -> Step:
    shap = tuple(valued(f"average_shap/f{at}", [0.1]) for at in range(features))
    return Step(number, Mode.GLOBAL, number, 0.0, {"importances": found, "shap": shap})


rule = partial(made, "FeatureImportanceOverweight")
VECTOR = (valued("feature_importance/weight", [9.0, 1, 0, 0, 0]),)


@pytest.mark.parametrize(
    ("found", "parameters", "expected"),
    [
        (weights([1.0] * 10), {}, HEALTHY),
        (weights([0.5, 0.2, 0.1, 0.1, 0.1]), {}, HEALTHY),  # at the threshold is not above
        (weights([0.5, 0.2, 0.11, 0.1, 0.09]), {}, VIOLATION),
        (weights([0.5, 0.2, 0.11, 0.1, 0.09]), {"threshold": "0.9"}, HEALTHY),
        (weights([0.5, 0.2, 0.11, 0.1, 0.09]), {"nfeatures": "2"}, HEALTHY),
        (weights([0.1, 0.1, 0.2]), {}, VIOLATION),  # not more than nfeatures
        (weights([7, 1, 1, 1, 1]), {}, VIOLATION),  # counts, not shares
        (weights([0.5, 0.2, 0.11, 0.1, 0.09], whole=False), {}, VIOLATION),
        (VECTOR, {}, VIOLATION),
        (VECTOR, {"threshold": 1}, HEALTHY),
        (weights([0.0, 0.0]), {}, UNDECIDED),
        (weights([np.nan, np.inf, -1.0]), {}, UNDECIDED),
        (weights([np.nan]), {}, NOT_APPLICABLE),
        (weights([1e308] * 4), {}, HEALTHY),
        (weights({"a/b c": [1.0], "": [1.0]}), {}, VIOLATION),
        ((), {}, NOT_APPLICABLE),
        (weights({"f0": []}), {}, NOT_APPLICABLE),
        (weights({"f0": ["x"]}), {}, NOT_APPLICABLE),
        ((valued("feature_importance/weight", np.array(1.0)),), {}, VIOLATION),
    ],
)
def test_one_step(found: tuple[Tensor, ...], parameters: dict[str, Any], expected: Outcome) -> None:
    assert outcomes(rule("sagemaker", **parameters), [step(found)]) == [expected]


def test_what_it_says() -> None:
    (verdict,) = judged(rule("sagemaker"), [step(weights([0.1, 0.6, 0.2, 0.05, 0.05]))])
    assert (verdict.reason, verdict.tensor) == (
        Reason.ABOVE_THRESHOLD,
        "feature_importance/weight/f1",
    )
    assert verdict.detail == (
        "3 of 5 features have 0.9 of the importance, above threshold 0.8; the first of them is "
        "feature_importance/weight/f1"
    )
    assert dict(verdict.evidence) == {
        "share": pytest.approx(0.9),
        "threshold": 0.8,
        "features": 5,
    }


def test_folders_and_workers_are_judged_each_by_itself() -> None:
    gain = tuple(
        valued(f"feature_importance/gain/f{at}", [9.0 if at == 7 else 0.1]) for at in range(9)
    )
    other = tuple(valued(f"feature_importance/weight/f{at}", [1.0], "worker_1") for at in range(9))
    (verdict,) = judged(rule("sagemaker"), [step((*other, *gain, *weights([1.0] * 9)))])
    assert verdict.tensor == "feature_importance/gain/f7"


@pytest.mark.parametrize(
    ("features", "expected"), [(0, NOT_APPLICABLE), (4, NOT_APPLICABLE), (20, VIOLATION)]
)
def test_recommended_leaves_models_of_few_features_alone(features: int, expected: Outcome) -> None:
    leak = weights([0.9, 0.05, 0.05])
    found = outcomes(rule(), [step(leak, at, features) for at in range(0, 40, 5)])
    assert found[-1] is expected


def test_recommended_waits_until_no_new_feature_comes_into_use() -> None:
    """Stumps: one more feature every ten rounds, and the share of the first three falls late."""
    steps = [
        step(weights([10.0] * 3 + [1.0] * min(at // 10, 4)), at, features=30)
        for at in range(0, 100, 5)
    ]
    assert outcomes(rule(), steps) == [UNDECIDED] * 12 + [VIOLATION] * 8
