"""Which customers reply to a letter: gradient boosting of a very unbalanced table, by XGBoost.

One in thirty replies. Earlier replies and purchases make it likelier, time since the last one less
likely, and some columns say nothing. The skill is twice the area under the ROC curve, less one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, ranking_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

COLUMNS = ("replies", "spent", "months", "age", "letters", "region", "paper", "weekday")
Array = NDArray[Any]


def customers(count: int, seed: int, gaps: float = 0.1, rare: float = 0.0) -> tuple[Array, Array]:
    """(count, 8) and whether each replied."""
    draw = np.random.default_rng(seed)
    replies = draw.poisson(0.8, count)
    spent = draw.lognormal(3.0, 1.0, count)
    months = draw.exponential(12.0, count)
    age = draw.uniform(18, 90, count)
    letters = draw.poisson(6, count)
    region, paper, weekday = draw.integers(0, 6, (3, count))
    score = 1.3 * replies + 0.9 * np.log(spent) - 0.22 * months - ((age - 55) / 16) ** 2
    score = score + 1.2 * np.isin(region, (1, 4)) - 0.15 * letters - 4.4 - rare
    y = draw.random(count) < 1 / (1 + np.exp(-1.6 * score))
    x = np.column_stack([replies, spent, months, age, letters, region, paper, weekday])
    x[draw.random(count) < gaps, 3] = np.nan
    return x.astype("float32"), y.astype("float32")


def focal(found: Array, data: Any) -> tuple[Array, Array]:
    """Gradient and curvature of a focal loss, by differences as many write it."""
    y = data.get_label()

    def slope(score: Array) -> Array:
        p = 1 / (1 + np.exp(-score))
        right = np.where(y > 0, p, 1 - p)
        sign = np.where(y > 0, 1.0, -1.0)
        part = right * np.log(np.clip(right, 1e-9, None)) + right - 1
        return sign * (1 - right) * part

    curvature = (slope(found + 1e-3) - slope(found - 1e-3)) / 2e-3
    return slope(found), np.maximum(curvature, 1e-4)


def logistic(found: Array, data: Any) -> tuple[Array, Array]:
    p = 1 / (1 + np.exp(-found))
    return p - data.get_label(), p * (1 - p)


def wrong_sign(found: Array, data: Any) -> tuple[Array, Array]:
    p = 1 / (1 + np.exp(-found))
    return data.get_label() - p, p * (1 - p)


def train(
    seed: int, hook: Any, rounds: int = 120, objective: Any = "binary:logistic",
    measure: str = "auc", settings: dict[str, Any] | None = None, count: int = 8000,
    weights: str = "", stop: int = 0, rare: float = 0.0, rest: bool = False,
    fault: str = "",
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    x, y = customers(count, seed + 1100, rare=rare)
    held_x, held_y = customers(3000, seed + 1101, rare=rare)
    test_x, test_y = customers(12000, 1102, rare=rare)
    if fault == "replies joined to other customers":
        y = np.roll(y, 17)
        held_y = np.roll(held_y, 17)
    options: dict[str, Any] = {
        "eta": 0.1, "max_depth": 4, "nthread": 1, "seed": seed, "eval_metric": measure,
        "min_child_weight": 1.0, **(settings or {}),
    }  # fmt: skip
    if weights == "balanced":
        options["scale_pos_weight"] = float((y == 0).sum() / y.sum())
    rows = np.arange(count)
    if rest:  # All who replied, and a few of the others
        draw = np.random.default_rng(seed)
        rows = np.flatnonzero((y > 0) | (draw.random(count) < 0.15))
    own = callable(objective)
    if not own:
        options["objective"] = objective
    data = xgb.DMatrix(x[rows], y[rows], feature_names=list(COLUMNS))
    if weights == "by hand":
        data.set_weight(np.where(y > 0, 10.0, 1.0)[rows])
    held = xgb.DMatrix(held_x, held_y, feature_names=list(COLUMNS))
    watched = [(data, "train"), (held, "held")]
    booster = xgb.train(
        options, data, rounds, evals=watched, obj=objective if own else None, verbose_eval=False,
        early_stopping_rounds=stop or None, callbacks=[hook.xgboost()],
    )  # fmt: skip
    if stop:
        booster = booster[: booster.best_iteration + 1]
    found = booster.predict(xgb.DMatrix(test_x, feature_names=list(COLUMNS)), output_margin=True)
    return ranking_skill(torch.as_tensor(found).double(), torch.as_tensor(test_y))


CASES = cases(
    "replying customers",
    train,
    {
        "plain": {},
        "replies weigh more": {"weights": "balanced", "measure": "logloss"},
        "weights by hand": {"weights": "by hand", "measure": "aucpr"},
        "monotone": {
            "settings": {"monotone_constraints": "(1,1,-1,0,-1,0,0,0)"}, "measure": "logloss",
        },
        "logistic by hand": {"objective": logistic},
        "focal loss by hand": {"objective": focal, "rounds": 250},
        "raw margins": {"objective": "binary:logitraw", "measure": "auc"},
        "few of those who did not": {"rest": True, "measure": "error"},
        "stops early": {"stop": 15, "rounds": 400, "measure": "logloss"},
        "stumps of many rounds": {"settings": {"max_depth": 1, "eta": 0.3}, "rounds": 400},
        "samples of rows and columns": {
            "settings": {"subsample": 0.5, "colsample_bytree": 0.6, "lambda": 10.0}, "rounds": 200,
        },
        "one in eighty": {"rare": 1.0, "count": 16000},
    },
    {
        "replies joined to other customers": (
            "no-skill overfit", {"fault": "replies joined to other customers"},
        ),
        "gradient of the wrong sign": ("worse no-skill", {"objective": wrong_sign}),
    },
)  # fmt: skip
