"""Delays of trains in minutes, by XGBoost with several sets to evaluate and early stopping.

Most trains are nearly on time and a few are very late, by the delay before, the weather, the hour
and the line. The skill is how well predictions rank the trains (Spearman's correlation), divided by
that of the true mean: a loss may aim at the median or at the mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from benchmarks.detection.families.kit import begin

from benchmarks.detection.case import cases

COLUMNS = ("before", "hour", "snow", "line", "stops", "works", "length", "weekday")
Table = dict[str, Any]


def trains(count: int, seed: int) -> tuple[Any, Any, Any]:
    """Inputs, delays, and what could be known of them."""
    world, draw = np.random.default_rng(91), np.random.default_rng(seed)
    busy = world.gamma(2.0, 0.5, 30)
    before, hour = draw.exponential(4, count), draw.uniform(5, 24, count)
    snow, line = draw.binomial(1, 0.15, count), draw.integers(30, size=count)
    stops, works = draw.integers(2, 20, count), draw.binomial(1, 0.1, count)
    rush = np.exp(-(((hour - 8) / 1.5) ** 2)) + np.exp(-(((hour - 17.5) / 2) ** 2))
    known = 0.7 * np.maximum(before - 2, 0) + 3 * busy[line] * rush + 4 * snow * (stops > 10)
    known = 0.5 + known + 5 * works * (1 + snow)
    noise = draw.gamma(3.0, 1 / 3.0, count)
    others = draw.normal(size=(2, count))
    x = np.stack([before, hour, snow, line, stops, works, *others], 1)
    return x, known * noise, known


def ranks(values: Any) -> Any:
    return np.argsort(np.argsort(values))


def correlation(a: Any, b: Any) -> float:
    if not np.isfinite(a).all():
        return math.nan
    if np.ptp(a) < 1e-6:
        return 0.0
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def minutes(said: Any, data: Any) -> tuple[str, float]:
    """The own measure of the evaluations."""
    return "minutes", float(np.abs(said - data.get_label()).mean())


def train(
    seed: int, hook: Any, rounds: int = 400, patience: int = 30, count: int = 4000,
    objective: str = "reg:pseudohubererror", fault: str = "", **parameters: Any,
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    (x, y, _), (held_x, held_y, _), (test_x, test_y, best) = (
        trains(n, 5 * seed + n) for n in (count, 801, 2002)
    )
    if fault == "delays of other trains":  # joined without its key
        y = np.random.default_rng(seed).permutation(y)
    if fault == "delay among the columns":
        x[:, 6], held_x[:, 6] = y, held_y
    if fault == "columns in another order":
        held_x, test_x = np.roll(held_x, 1, 1), np.roll(test_x, 1, 1)
    if fault == "only those on time are kept":
        kept = y < 1.0
        x, y = x[kept], y[kept]
    if objective == "reg:squaredlogerror" or fault == "logarithm of one more":
        y, held_y = np.log1p(y), np.log1p(held_y)
    data, held = (
        xgb.DMatrix(x, y, feature_names=COLUMNS),
        xgb.DMatrix(held_x, held_y, feature_names=COLUMNS),
    )
    how = {
        "objective": objective, "eta": 0.1, "max_depth": 4, "nthread": 1, "seed": seed,
        "subsample": 0.8, "huber_slope": 2.0, **parameters,
    }  # fmt: skip
    sets = [(data, "known"), (held, "held_out")]
    booster = xgb.train(
        how, data, rounds, evals=sets, custom_metric=minutes, verbose_eval=False,
        early_stopping_rounds=patience or None, callbacks=[hook.xgboost()],
    )  # fmt: skip
    said = booster.predict(xgb.DMatrix(test_x, feature_names=COLUMNS))
    return correlation(said, test_y) / correlation(best, test_y)


CASES = cases(
    "train delays",
    train,
    {
        "plain": {},
        "Tweedie": {"objective": "reg:tweedie", "tweedie_variance_power": 1.4},
        "absolute error": {"objective": "reg:absoluteerror"},
        "gamma distribution": {"objective": "reg:gamma", "eta": 0.05},
        "dropped trees": {"booster": "dart", "rate_drop": 0.1, "rounds": 120, "patience": 0},
        "deep and slow": {"max_depth": 8, "eta": 0.02, "min_child_weight": 10, "rounds": 300},
        "logarithm of one more": {
            "fault": "logarithm of one more",
            "objective": "reg:squarederror",
        },
    },
    {
        "delays of other trains": ("no-skill overfit", {"fault": "delays of other trains"}),
        "delay among the columns": ("leak", {"fault": "delay among the columns"}),
        "columns in another order": ("inputs overfit worse", {"fault": "columns in another order"}),
        "punctual trains alone": (
            "overfit imbalance range",
            {"fault": "only those on time are kept"},
        ),
        "sixty trains": ("overfit", {"count": 60, "patience": 0, "subsample": 1.0}),
        "penalty of a million": ("trees no-skill", {"gamma": 1e6}),
        "eta of three": ("fast worse", {"eta": 3.0, "patience": 0, "rounds": 100}),
    },
)
