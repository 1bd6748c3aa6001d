"""XGBClassifier grades the risk of drivers, from numbers and categories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from benchmarks.detection.case import cases

REGIONS, JOBS, BRANDS, NUMBERS = 24, 16, 12, 5
TYPES = ["q"] * NUMBERS + ["c"] * 3
ALL_ROUNDS = {"early_stopping_rounds": None, "n_estimators": 150}
NOTHING: Mapping[str, Any] = {}


def drivers(count: int, seed: int) -> tuple[Any, Any, Any]:
    """Age, kilometres, power, years without claims, price; three codes; the grade and the score."""
    draw, of_code = np.random.default_rng(seed), np.random.default_rng(11)
    age = draw.uniform(18, 85, count)
    distance = draw.lognormal(9.4, 0.5, count)
    power = draw.normal(95, 30, count).clip(35)
    free_years = np.minimum(draw.poisson(5, count), age - 18).round()
    price = 180 * power + draw.normal(0, 3000, count)
    codes = [draw.integers(kinds, size=count) for kinds in (REGIONS, JOBS, BRANDS)]
    effects = [of_code.normal(0, spread, kinds)[code] for kinds, spread, code in
               zip((REGIONS, JOBS, BRANDS), (0.9, 0.6, 0.4), codes, strict=True)]  # fmt: skip
    score = (
        1.2 * ((age - 48) / 25) ** 2
        + 1.1 * (np.log(distance) - 9.4)
        + 0.02 * (power - 95) * (age < 30)
        - 0.22 * free_years
        + sum(effects)
        + 0.25 * draw.normal(size=count)
    )
    x = np.column_stack([age, distance, power, free_years, price, *codes]).astype(float)
    return x, np.digitize(score, [-0.6, 0.7]), score


def softprob(sign: float) -> Any:
    """An objective by hand: the gradient and Hessian of the cross-entropy."""

    def objective(y: Any, scores: Any) -> tuple[Any, Any]:
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        wanted = np.eye(scores.shape[1])[y.astype(int)]
        return sign * (share - wanted), np.maximum(2 * share * (1 - share), 1e-6)

    return objective


def coded_alone(x: Any) -> Any:
    """Codes as pandas.factorize gives them: in the order in which the values appear."""
    x = x.copy()
    for column in range(NUMBERS, x.shape[1]):
        _, first, place = np.unique(x[:, column], return_index=True, return_inverse=True)
        x[:, column] = np.argsort(np.argsort(first))[place]
    return x


def train(
    seed: int, hook: Any, settings: Mapping[str, Any] = NOTHING, count: int = 2500,
    one_hot: bool = False, noise: float = 0.0, missing: float = 0.0, weights: str = "",
    raw_units: float = 1.0, continued: bool = False, fault: str = "",
) -> float:  # fmt: skip
    import xgboost as xgb

    x, y, score = drivers(count, seed + 1000)
    held_x, held_y, _ = drivers(1500, seed + 5000)
    draw = np.random.default_rng(seed)
    types = list(TYPES)
    if noise:
        y = np.where(draw.random(count) < noise, draw.integers(3, size=count), y)
    if missing:
        for part in (x, held_x):
            part[:, :NUMBERS][draw.random((len(part), NUMBERS)) < missing] = np.nan
    x[:, :NUMBERS] *= raw_units
    held_x[:, :NUMBERS] *= raw_units
    if fault == "rows dropped from the columns alone":
        kept = draw.random(count) < 0.97
        x, y = x[kept], y[: kept.sum()]
    if fault == "joined by region alone":  # grades come from another driver of the same region
        order = np.lexsort((draw.random(count), x[:, NUMBERS]))
        by_region = np.argsort(x[:, NUMBERS], kind="stable")
        y = y[order][np.argsort(by_region)]
    if fault == "only those who were accepted":
        accepted = (score < -0.7) | (draw.random(count) < 0.01)
        x, y = x[accepted], y[accepted]
    if fault == "codes of each file":
        x, held_x = coded_alone(x), coded_alone(held_x)
    if fault == "evaluation standardised":
        numbers = held_x[:, :NUMBERS]
        held_x[:, :NUMBERS] = (numbers - numbers.mean(0)) / numbers.std(0)
    if fault == "losses that come later":  # paid after the contract was graded; none is known yet
        x = np.column_stack([x, np.maximum(0, 900 * y + 150 * draw.normal(size=len(y)))])
        held_x = np.column_stack([held_x, np.zeros(len(held_x))])
        types.append("q")
    if one_hot:
        x, held_x = (
            np.hstack([part[:, :NUMBERS], *(np.eye(kinds)[part[:, NUMBERS + n].astype(int)]
                       for n, kinds in enumerate((REGIONS, JOBS, BRANDS)))])
            for part in (x, held_x)
        )  # fmt: skip
        types = ["q"] * x.shape[1]
    weight = None
    if weights == "balanced":
        weight = (1 / np.bincount(y))[y] * len(y) / 3
    if weights == "kilometres":
        weight = x[:, 1] / x[:, 1].mean()
    if weights == "position of classes":  # meant for 0: rare … 2: frequent; the codes are others
        weight = np.array([1e-3, 1e-3, 30.0])[y]
    margins = None
    if fault == "margin of the old model in training alone":
        margins = 7.0 * np.eye(3)[np.digitize(score + 0.1 * draw.normal(size=count), [-0.6, 0.7])]
    options = {
        "n_estimators": 400, "learning_rate": 0.05, "max_depth": 4, "early_stopping_rounds": 30,
        "eval_metric": ["merror", "mlogloss"], "tree_method": "hist", "n_jobs": 1,
        "random_state": seed, "enable_categorical": True, **settings,
    }  # fmt: skip
    if fault == "highest log loss is best":
        options["early_stopping_rounds"] = None
    held = xgb.DMatrix(held_x, held_y, feature_types=types, enable_categorical=True)
    callbacks = [hook.xgboost(validation=held)]
    if fault == "highest log loss is best":
        callbacks.append(xgb.callback.EarlyStopping(5, metric_name="mlogloss", maximize=True))
    model = xgb.XGBClassifier(**options, feature_types=types, callbacks=callbacks, verbosity=0)
    known = None
    if continued:
        known = xgb.XGBClassifier(
            **{**options, "n_estimators": 40, "early_stopping_rounds": None},
            feature_types=types, verbosity=0,
        ).fit(x[::2], y[::2])  # fmt: skip
    model.fit(
        x, y, sample_weight=weight, base_margin=margins, eval_set=[(x, y), (held_x, held_y)],
        base_margin_eval_set=None if margins is None else [margins, np.zeros((len(held_y), 3))],
        xgb_model=known, verbose=False,
    )  # fmt: skip
    scores = model.predict(held_x, output_margin=True)
    if not np.isfinite(scores).all():
        return math.nan
    return float(cohen_kappa_score(held_y, scores.argmax(1), weights="quadratic"))


CASES = cases(
    "boosted risk",
    train,
    {
        "plain": {},
        "one-hot columns": {"one_hot": True},
        "few bins": {"settings": {"max_bin": 32}},
        "leaves first": {
            "settings": {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}
        },
        "rows and columns sampled": {"settings": {"subsample": 0.6, "colsample_bytree": 0.6}},
        "strongly regularised": {
            "settings": {"reg_lambda": 30.0, "reg_alpha": 1.0, "min_child_weight": 5.0}
        },
        "slow": {"settings": {"learning_rate": 0.025, "n_estimators": 800}},
        "fast": {"settings": {"learning_rate": 0.4}},
        "no early stopping": {"settings": {"early_stopping_rounds": None, "n_estimators": 300}},
        "labels with noise": {"noise": 0.05},
        "values missing": {"missing": 0.02},
        "classes balanced": {"weights": "balanced"},
        "weighted by kilometres": {"weights": "kilometres"},
        "raw units": {"raw_units": 1e6},
        "four trees a round": {
            "settings": {"num_parallel_tree": 3, "subsample": 0.8, "learning_rate": 0.15}
        },
        "continued from an older model": {"continued": True},
        "objective by hand": {"settings": {"objective": softprob(1.0)}},
        "steps of leaves limited": {"settings": {"max_delta_step": 1.0}},
    },
    {
        "rows dropped from the columns alone": (
            "no-skill overfit",
            {"fault": "rows dropped from the columns alone"},
        ),
        "joined by region alone": (
            "no-skill overfit",
            {"fault": "joined by region alone", "settings": ALL_ROUNDS},
        ),
        "only those who were accepted": (
            "imbalance overfit inputs",
            {"fault": "only those who were accepted", "settings": ALL_ROUNDS},
        ),
        "codes of each file": ("inputs overfit", {"fault": "codes of each file"}),
        "evaluation standardised": ("inputs overfit", {"fault": "evaluation standardised"}),
        "losses that come later": (
            "leak trees overfit",
            {"fault": "losses that come later", "settings": ALL_ROUNDS},
        ),
        "margin in training alone": (
            "inputs overfit worse",
            {"fault": "margin of the old model in training alone"},
        ),
        "weights by position of classes": (
            "imbalance worse",
            {"weights": "position of classes", "settings": ALL_ROUNDS},
        ),
        "highest log loss is best": (
            "slow no-skill",
            {"fault": "highest log loss is best", "settings": {"learning_rate": 0.03}},
        ),
        "gradient by hand with wrong sign": (
            "worse fast no-skill",
            {"settings": {"objective": softprob(-1.0), "early_stopping_rounds": None,
                          "n_estimators": 120}},
        ),
        "gamma of another library": (
            "trees no-skill",
            {"settings": {"gamma": 2000.0, **ALL_ROUNDS}},
        ),
        "child weight for rows of a large file": (
            "trees no-skill",
            {"settings": {"min_child_weight": 500.0}},
        ),
        "leaves limited": (
            "slow no-skill",
            {"settings": {"max_delta_step": 1e-4, "n_estimators": 150}},
        ),
        "rate x 50": (
            "fast worse",
            {"settings": {"learning_rate": 5.0, "early_stopping_rounds": None,
                          "n_estimators": 80}},
        ),
        "rate / 2000": (
            "slow no-skill",
            {"settings": {"learning_rate": 5e-5, "n_estimators": 120}},
        ),
        "one column a tree": (
            "slow trees no-skill",
            {"settings": {"max_depth": 1, "n_estimators": 12, "learning_rate": 0.05}},
        ),
    },
)  # fmt: skip
