"""Columns of trees, against what XGBoost's own (which needs pandas) says of the same rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost as xgb
from tocsin_hooks.xgboost.trees import COLUMNS, tree_columns

random = np.random.default_rng(0)
PLAIN = random.normal(size=(120, 4)).astype(np.float32)
KINDS = np.column_stack([PLAIN[:, :2], PLAIN[:, 2] > 0, random.integers(0, 6, 120)])
TARGET = ((PLAIN[:, 0] > 0) ^ (KINDS[:, 3] > 2)).astype(int)

CASES = {
    "plain": ({}, PLAIN, {}),
    "approx": ({"tree_method": "approx"}, PLAIN, {}),
    "exact": ({"tree_method": "exact"}, PLAIN, {}),
    "uneven": ({"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 9}, PLAIN, {}),
    "pruned": ({"tree_method": "exact", "gamma": 3.0, "max_depth": 6}, PLAIN, {}),
    "a single leaf": ({"gamma": 1e9}, PLAIN, {}),
    "dart": ({"booster": "dart", "rate_drop": 0.5}, PLAIN, {}),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, PLAIN, {}),
    "a forest": ({"num_parallel_tree": 3, "subsample": 0.5}, PLAIN, {}),
    "named": ({}, PLAIN, {"feature_names": ["a", "b c", "ü", "d"]}),
    "missing": ({}, np.where(PLAIN > 1, np.nan, PLAIN), {}),
    "categorical": ({"max_cat_to_onehot": 2}, KINDS, {"feature_types": ["q", "q", "q", "c"]}),
    "one category": ({"max_cat_to_onehot": 9}, KINDS, {"feature_types": ["q", "q", "q", "c"]}),
}


def trained(parameters: dict[str, Any], features: Any, matrix: dict[str, Any]) -> xgb.Booster:
    labels = TARGET + (PLAIN[:, 1] > 0) * ("num_class" in parameters)
    data = xgb.DMatrix(features, label=labels, enable_categorical=True, **matrix)
    settings = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1}
    return xgb.train({**settings, **parameters}, data, 3)


@pytest.mark.parametrize("case", CASES)
def test_they_say_what_xgboost_says(case: str) -> None:
    booster = trained(*CASES[case])
    theirs = booster.trees_to_dataframe()
    of_a_round = (theirs["Tree"].max() + 1) // 3
    for rounds in (1, 3):
        first = (rounds - 1) * of_a_round
        wanted = theirs[theirs["Tree"].between(first, first + of_a_round - 1)]
        columns = tree_columns(booster, rounds)
        assert tuple(columns) == COLUMNS == tuple(theirs.columns)
        for name in ("Tree", "Node", "ID", "Feature"):
            assert columns[name].tolist() == wanted[name].tolist()
        for name in ("Yes", "No", "Missing"):
            assert columns[name].tolist() == wanted[name].astype(object).fillna("nan").tolist()
        for name in ("Split", "Gain", "Cover"):
            np.testing.assert_allclose(columns[name], wanted[name], rtol=1e-6)
        listed = [
            ",".join(each) if isinstance(each, list) else "nan" for each in wanted["Category"]
        ]
        assert columns["Category"].tolist() == listed


def test_types_are_those_of_smdebug() -> None:
    columns = tree_columns(trained({}, PLAIN, {}), 1)
    kinds = {name: column.dtype.kind for name, column in columns.items()}
    numbers = dict.fromkeys(("Tree", "Node"), "i") | dict.fromkeys(("Split", "Gain", "Cover"), "f")
    assert kinds == dict.fromkeys(COLUMNS, "U") | numbers


def test_a_leaf_for_several_targets_has_no_single_value() -> None:
    data = xgb.DMatrix(PLAIN, label=np.column_stack([TARGET, 1 - TARGET]))
    booster = xgb.train({"multi_strategy": "multi_output_tree", "max_depth": 2}, data, 2)
    columns = tree_columns(booster, 2)
    leaves = columns["Feature"] == "Leaf"
    assert leaves.sum() == 4
    assert np.isnan(columns["Gain"][leaves]).all()
    assert not (columns["Gain"][~leaves] <= 0).any()
    assert set(columns["Tree"].tolist()) == {1}
