"""Rules over runs of the callback: quiet over what is well, and not over what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from tocsin_hooks.xgboost import TocsinCallback

random = np.random.default_rng(0)
FEATURES = random.normal(size=(300, 6)).astype(np.float32)
SUM = FEATURES[:, :3].sum(axis=1)


def matrix(labels: Any, features: Any = FEATURES) -> xgb.DMatrix:
    return xgb.DMatrix(features, label=labels)


def halves(labels: Any, features: Any = FEATURES) -> tuple[xgb.DMatrix, xgb.DMatrix]:
    return matrix(labels[:200], features[:200]), matrix(labels[200:], features[200:])


CASES = {
    "a deep tree": (
        {"rule": "TreeDepth"},
        halves(random.integers(0, 2, 300)),
        {"max_depth": 0, "min_child_weight": 0, "eta": 1.0, "reg_lambda": 0},
        "IssuesFound",
    ),
    "a flat tree": ({"rule": "TreeDepth"}, halves((SUM > 0) * 1), {}, "NoIssuesFound"),
    "a tree as Amazon counts": (
        {"rule": "TreeDepth", "parameters": {"depth": 1}},
        halves((SUM > 0) * 1),
        {},
        "IssuesFound",
    ),
    "few of a class": (
        {"rule": "ClassImbalance"},
        halves((np.arange(300) % 50 == 0) * 1),
        {},
        "IssuesFound",
    ),
    "as many of each": ({"rule": "ClassImbalance"}, halves((SUM > 0) * 1), {}, "NoIssuesFound"),
    "classes that nothing tells apart": (
        {"rule": "Confusion", "for_steps": 3},
        halves(random.integers(0, 3, 300)),
        {"objective": "multi:softprob", "num_class": 3},
        "IssuesFound",
    ),
    "the same, as classes": (
        {"rule": "Confusion", "for_steps": 3},
        halves(random.integers(0, 3, 300)),
        {"objective": "multi:softmax", "num_class": 3},
        "IssuesFound",
    ),
    "classes that are told apart": (
        {"rule": "Confusion", "for_steps": 3},
        halves((FEATURES[:, 0] > 0) * 1),
        {},
        "NoIssuesFound",
    ),
    "one feature has it all": (
        {"rule": "FeatureImportanceOverweight", "parameters": {"least_features": 5}},
        halves((FEATURES[:, 0] > 0) * 1),
        {},
        "IssuesFound",
    ),
    "all have a share": (
        {"rule": "FeatureImportanceOverweight", "parameters": {"least_features": 5}},
        halves((FEATURES.sum(axis=1) > 0) * 1),
        {"max_depth": 4},
        "NoIssuesFound",
    ),
    "the others are unused": (
        {"rule": "UnusedFeatures", "parameters": {"rounds": 10, "threshold": 0.8}},
        halves((FEATURES[:, 0] > 0) * 1),
        {},
        "IssuesFound",
    ),
    "labels without a pattern": (
        {"rule": "Overfit"},
        halves(random.integers(0, 2, 300)),
        {"max_depth": 6, "eta": 1.0, "min_child_weight": 0, "reg_lambda": 0},
        "IssuesFound",
    ),
    "too high a rate": (
        {"rule": "LossDiverging"},
        halves(SUM),
        {"objective": "reg:squarederror", "eta": 3.0},
        "IssuesFound",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule(train: Any, tmp_path: Path, verdicts: Any, case: str) -> None:
    rule, (training, validation), parameters, status = CASES[case]
    named = [(training, "train"), (validation, "validation")]
    train(
        40,
        parameters=parameters,
        dtrain=training,
        named=named,
        options={"validation": validation},
    )
    assert verdicts(tmp_path / "run", [rule]) == {rule["rule"]: status}


@pytest.mark.parametrize(("learnable", "status"), [(True, "NoIssuesFound"), (False, "IssuesFound")])
def test_cross_validation_of_what_cannot_be_learned(
    tmp_path: Path, verdicts: Any, learnable: bool, status: str
) -> None:
    labels = (SUM > 0) * 1 if learnable else np.random.default_rng(1).integers(0, 2, 300)
    callback = TocsinCallback(tmp_path / "run", max_overhead=None)
    parameters = {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}
    xgb.cv(parameters, matrix(labels), 40, nfold=3, callbacks=[callback])
    assert verdicts(tmp_path / "run", [{"rule": "LossGap"}]) == {"LossGap": status}
