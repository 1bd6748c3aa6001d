"""Lifetimes of pumps: XGBoost with an accelerated failure time (AFT), many of them still running.

Load, heat, dirt, service and the maker's type make a pump's life. The skill is the explained
variance of the logarithm of lifetimes of a third set, whose ends are all known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

FOREVER = float("inf")


def pumps(count: int, seed: int) -> tuple[Any, Any]:
    """Columns (N, 8), and lifetimes in days."""
    draw = np.random.default_rng(seed)
    load, heat = draw.uniform(0.3, 1.2, count), draw.normal(55, 12, count)
    dirt, hours = draw.gamma(2.0, 1.0, count), draw.uniform(2, 24, count)
    service, kind = draw.integers(0, 5, count), draw.integers(0, 4, count)
    log_life = (
        7.2
        - 1.1 * load**2
        - 0.03 * np.maximum(heat - 50, 0)
        - 0.18 * dirt * (service < 2)
        + 0.12 * service
        - 0.6 * np.log(hours / 12)
        + np.array([0.3, -0.4, 0.0, 0.5])[kind]
    )
    other = draw.normal(size=(2, count))
    columns = np.stack([load, heat, dirt, hours, service, kind, *other], 1)
    return columns, np.exp(log_life + 0.25 * draw.normal(size=count))


def seen_in_part(life: Any, seed: int, how: str, latest: float) -> tuple[Any, Any]:
    """The least and the most that a lifetime can be, as the watch ended on some day."""
    watched = np.random.default_rng(seed).uniform(200, latest, len(life))
    ended = life <= watched
    low = np.minimum(life, watched)
    high = np.where(ended, low, FOREVER)
    if how == "inspected each season":
        low, high = np.floor(low / 90) * 90 + 0.5, np.where(ended, np.ceil(low / 90) * 90, FOREVER)
    return low, high


def other_degrees(x: Any) -> Any:
    return np.column_stack([x[:, :1], x[:, 1] * 1.8 + 32, x[:, 2:]])


def train(
    seed: int, hook: Any, eta: float = 0.1, rounds: int = 300, depth: int = 3, patience: int = 30,
    shape: str = "normal", scale: float = 0.5, count: int = 2500, latest: float = 3000.0,
    how: str = "", more: Any = None, fault: str = "",
) -> float:  # fmt: skip
    import xgboost as xgb

    parts = []
    for number, size in enumerate((count, 500)):
        x, life = pumps(size, seed + 8200 + number)
        low, high = seen_in_part(life, seed + 8210 + number, how, latest)
        if fault == "days of watching as a column":
            x = np.column_stack([x, np.log(low)])
        if fault == "degrees of another scale" and number == 1:
            x = other_degrees(x)
        if fault == "table sorted after the bounds were made" and number == 0:
            x = x[np.argsort(x[:, 0])]
        if fault == "running pumps end at nought":
            high = np.where(np.isinf(high), 0.0, high)
        rows = xgb.DMatrix(x)
        rows.set_float_info("label_lower_bound", low)
        rows.set_float_info("label_upper_bound", high)
        parts.append(rows)
    test, test_life = pumps(1500, seed + 8202)
    if fault == "days of watching as a column":
        of_the_day = np.random.default_rng(seed).uniform(200, latest, len(test))
        test = np.column_stack([test, np.log(of_the_day)])
    if fault == "degrees of another scale":
        test = other_degrees(test)
    settings = {
        "objective": "survival:aft", "eval_metric": "aft-nloglik", "eta": eta, "max_depth": depth,
        "aft_loss_distribution": shape, "aft_loss_distribution_scale": scale, "nthread": 1,
        "seed": seed, "verbosity": 0, "tree_method": "hist", **(more or {}),
    }  # fmt: skip
    booster = xgb.train(
        settings, parts[0], rounds, evals=[(parts[0], "train"), (parts[1], "validation")],
        early_stopping_rounds=patience or None, verbose_eval=False, callbacks=[hook.xgboost()],
    )  # fmt: skip
    found = booster.predict(xgb.DMatrix(test))
    wrong = (np.log(np.maximum(found, 1e-9)) - np.log(test_life)) ** 2
    return float(1 - wrong.mean() / np.log(test_life).var())


CASES = cases(
    "pump lifetimes",
    train,
    {
        "plain": {},
        "most still running": {"latest": 1500.0, "count": 4000},
        "inspected each season": {"how": "inspected each season"},
        "not ended, low rate": {"eta": 0.03, "rounds": 400, "patience": 0},
        "leaf by leaf, parts of rows": {
            "depth": 0,
            "more": {"grow_policy": "lossguide", "max_leaves": 10, "subsample": 0.6},
        },
    },
    {
        "days of watching as a column": ("leak", {"fault": "days of watching as a column"}),
        "table sorted after the bounds were made": (
            "no-skill overfit",
            {"fault": "table sorted after the bounds were made"},
        ),
        "running pumps end at nought": (
            "not-finite no-skill worse range",
            {"fault": "running pumps end at nought", "patience": 0},
        ),
        "degrees of another scale": ("inputs overfit", {"fault": "degrees of another scale"}),
        "ten rounds of a low rate": (
            "slow no-skill",
            {"eta": 0.01, "rounds": 10, "patience": 0},
        ),
    },
)
