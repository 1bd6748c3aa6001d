"""Bikes rented in an hour, by XGBoost with many small trees, ended by a month held out.

Demand follows the hour, whether people work, season and weather. The skill is the share of the
variance of a third set's demand that is explained.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

COLUMNS = ("hour", "weekday", "month", "temperature", "humidity", "wind", "rain", "holiday")
HOUR, MONTH, TEMPERATURE, HUMIDITY, WIND = 0, 2, 3, 4, 5


def hours(count: int, seed: int, months: tuple[int, int] = (0, 12)) -> tuple[Any, Any]:
    """Features (N, 8), and whole numbers of bikes."""
    draw = np.random.default_rng(seed)
    hour, weekday = draw.integers(24, size=count), draw.integers(7, size=count)
    month, holiday = draw.integers(*months, size=count), draw.random(count) < 0.03
    warm = -np.cos(2 * np.pi * (month + 0.5) / 12)
    temperature = 12 + 11 * warm + 4 * draw.normal(size=count)
    humidity, wind = 40 + 50 * draw.random(count), draw.gamma(2.0, 6.0, count)
    rain = np.where(draw.random(count) < 0.2, draw.gamma(1.0, 2.0, count), 0.0)
    rush = np.exp(-((hour - 8) ** 2) / 3) + 1.2 * np.exp(-((hour - 17.5) ** 2) / 5)
    leisure = np.exp(-((hour - 14) ** 2) / 22)
    works = (weekday < 5) & ~holiday
    log = 3.6 + np.where(works, 2.0 * rush + 0.8 * leisure, 1.9 * leisure)
    log = log + 0.05 * temperature - 0.0016 * np.maximum(temperature - 18, 0) ** 2
    log = log - 0.18 * np.minimum(rain, 5) - 0.006 * (humidity - 60) - 0.01 * wind
    y = draw.poisson(np.exp(log + 0.12 * draw.normal(size=count)))
    x = np.stack([hour, weekday, month, temperature, humidity, wind, rain, holiday], 1)
    return x.astype(float), y.astype(float)


def with_station(x: Any, y: Any, station: Any, of: Any, of_y: Any) -> Any:
    """A column more: the mean demand at a sample's station, as the samples ``of`` have it."""
    total = np.bincount(of, of_y, 4000)
    mean = (total + 1e-9 * of_y.mean()) / (np.bincount(of, minlength=4000) + 1e-9)
    return np.column_stack([x, mean[station]])


def own_squares(sign: float, curve: float) -> Any:
    def gradient(found: Any, rows: Any) -> tuple[Any, Any]:
        return sign * (found - rows.get_label()), np.full(len(found), curve)

    return gradient


def prepared(x: Any, y: Any, part: str, fault: str, option: str, seed: int) -> tuple[Any, Any]:
    """Features and demand as the script makes them of a part: train, validation or test."""
    draw = np.random.default_rng(seed)
    x, y, late = x.copy(), y.copy(), part != "train"
    if option == "missing":
        x[draw.random(x.shape) < 0.02] = np.nan
    if option == "useless columns":
        x = np.column_stack([x, draw.normal(size=(len(x), 25))])
    if option == "hours as text":
        x[:, HOUR] = np.argsort(np.argsort([str(n) for n in range(24)]))[x[:, HOUR].astype(int)]
    if fault == "another time zone" and late:
        x[:, HOUR] = (x[:, HOUR] + 8) % 24
    if fault == "Fahrenheit" and late:
        x[:, TEMPERATURE] = 1.8 * x[:, TEMPERATURE] + 32
    if fault == "shares of the day" and late:
        x[:, HOUR] = x[:, HOUR] / 23
    if fault == "registered riders":
        share = 0.8 + 0.02 * draw.normal(size=len(y))
        riders = np.round(y * share) if part != "test" else np.zeros(len(y))
        x = np.column_stack([x, riders])
    if fault == "one byte":
        y = y.astype(np.int64).astype(np.uint8).astype(float) if part != "test" else y
    if part == "train":
        y = draw.permutation(y) if fault == "rows apart" else y
        if option == "noise":
            y = np.where(draw.random(len(y)) < 0.05, draw.permutation(y), y)
        if fault == "typing errors":
            y[:4] = y[:4] * 1e4
    return x, y


def train(
    seed: int, hook: Any, eta: float = 0.02, rounds: int = 2500, patience: int = 40,
    depth: int = 5, count: int = 6000, objective: str = "reg:squarederror", unit: float = 1.0,
    logarithm: str = "", option: str = "", own: Any = None, falling: bool = False,
    months: tuple[int, int] = (0, 12), fault: str = "", more: Any = None,
) -> float:  # fmt: skip
    import xgboost as xgb

    raw, raw_y = hours(count, seed + 5400, months)
    held, held_y = hours(600, seed + 5401, months if fault == "winter" else (0, 12))
    test, test_y = hours(1500, seed + 5402)
    if fault == "validation of the same rows":
        held, held_y = raw[:600], raw_y[:600]
    x, y = prepared(raw, raw_y, "train", fault, option, seed)
    held, held_y = prepared(held, held_y, "validation", fault, option, seed + 1)
    test, _ = prepared(test, test_y, "test", fault, option, seed + 2)
    if fault == "mean of few":
        draw = np.random.default_rng(seed + 3)
        station, other, last = (draw.integers(4000, size=len(part)) for part in (x, held, test))
        held = with_station(held, held_y, other, station, y)
        test = with_station(test, test_y, last, station, y)
        x = with_station(x, y, station, station, y)
    y, held_y = y * unit, held_y * unit
    y = np.log1p(y) if logarithm == "both" else y
    held_y = np.log1p(held_y) if logarithm else held_y
    weight = None
    if option == "recent hours count more":
        weight = np.linspace(0.3, 1.0, len(y))
    if fault == "weights of calm hours":
        weight = 1e-4 + (y < np.quantile(y, 0.5))
    trained, validation = xgb.DMatrix(x, y, weight=weight), xgb.DMatrix(held, held_y)
    callbacks: list[Any] = [hook.xgboost(validation=validation)]
    if falling:
        callbacks.append(xgb.callback.LearningRateScheduler(lambda n: eta * 0.995**n))
    if fault == "highest is best":
        callbacks.append(xgb.callback.EarlyStopping(patience, maximize=True, save_best=True))
        patience = 0
    booster = xgb.train(
        {"objective": objective, "eta": eta, "max_depth": depth, "nthread": 1, "seed": seed,
         "verbosity": 0, **(more or {})},
        trained,
        rounds,
        evals=[(trained, "train"), (validation, "validation")],
        obj=own_squares(*own) if own else None,
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=callbacks,
    )  # fmt: skip
    found = booster.predict(xgb.DMatrix(test))
    found = np.expm1(found) if logarithm == "both" else found
    found = found / unit
    return float(1 - ((found - test_y) ** 2).mean() / test_y.var())


CASES = cases(
    "bike rentals",
    train,
    {
        "plain": {},
        "very slow": {"eta": 0.005, "rounds": 4000},
        "fast": {"eta": 0.2, "rounds": 300, "depth": 4},
        "not ended": {"patience": 0, "rounds": 800},
        "exact": {"more": {"tree_method": "exact"}, "eta": 0.05},
        "by leaves": {"more": {"grow_policy": "lossguide", "max_leaves": 15}, "depth": 0},
        "Poisson": {"objective": "count:poisson", "eta": 0.05},
        "Tweedie": {
            "objective": "reg:tweedie",
            "eta": 0.05,
            "more": {"tweedie_variance_power": 1.2},
        },
        "logarithm": {"logarithm": "both"},
        "absolute error": {
            "objective": "reg:absoluteerror",
            "eta": 0.05,
            "depth": 7,
            "patience": 100,
        },
        "thousands of bikes": {"unit": 1e-3, "more": {"lambda": 1.0}},
        "unit x 10000": {"unit": 1e4},
        "parts of rows and columns": {"more": {"subsample": 0.6, "colsample_bytree": 0.7}},
        "four trees a round": {"more": {"num_parallel_tree": 4, "subsample": 0.7}, "eta": 0.1},
        "strong penalty": {"more": {"lambda": 50.0, "min_child_weight": 5}, "eta": 0.05},
        "wrong demands": {"option": "noise"},
        "missing values": {"option": "missing", "more": {"min_child_weight": 3}},
        "useless columns": {"option": "useless columns"},
        "hours as text": {"option": "hours as text"},
        "recent hours count more": {"option": "recent hours count more"},
        "own objective": {"own": (1.0, 1.0)},
        "falling rate": {"falling": True, "eta": 0.1},
        "warmer is more": {"more": {"monotone_constraints": "(0,0,0,1,0,0,0,0)"}},
    },
    {
        "rows apart": ("no-skill overfit", {"fault": "rows apart"}),
        "registered riders": ("leak trees", {"fault": "registered riders"}),
        "mean of few": ("leak trees overfit", {"fault": "mean of few"}),
        "another time zone": ("inputs overfit", {"fault": "another time zone"}),
        "Fahrenheit in evaluation": ("inputs overfit", {"fault": "Fahrenheit"}),
        "hours scaled in evaluation": ("inputs overfit", {"fault": "shares of the day"}),
        "logarithm of validation alone": (
            "range overfit inputs worse",
            {"logarithm": "validation alone"},
        ),
        "one byte": ("no-skill range", {"fault": "one byte"}),
        "typing errors": ("no-skill overfit range worse", {"fault": "typing errors"}),
        "January alone": ("inputs overfit", {"months": (0, 1), "count": 2000}),
        "weights of calm hours": ("no-skill imbalance", {"fault": "weights of calm hours"}),
        "highest is best": ("slow no-skill", {"fault": "highest is best"}),
        "gradient turned": (
            "worse fast not-finite no-skill",
            {"own": (-1.0, 1.0), "patience": 0, "rounds": 300},
        ),
        "curvature too small": (
            "fast worse not-finite",
            {"own": (1.0, 0.002), "patience": 0, "rounds": 200, "more": {"min_child_weight": 0}},
        ),
        "curvature of nothing": (
            "trees no-skill slow",
            {"own": (1.0, 0.0), "patience": 0, "rounds": 200},
        ),
        "Huber of one bike": (
            "slow no-skill trees",
            {"objective": "reg:pseudohubererror", "patience": 0, "rounds": 500},
        ),
        "no split is worth it": (
            "trees no-skill",
            {"more": {"gamma": 1e9}, "patience": 0, "rounds": 300},
        ),
        "penalty x 1000000": (
            "slow no-skill trees",
            {"more": {"lambda": 1e6}, "patience": 0, "rounds": 500},
        ),
        "thirty rounds": ("slow no-skill", {"rounds": 30, "eta": 0.01}),
        "start at a half": (
            "slow range",
            {"more": {"base_score": 0.5}, "eta": 0.005, "rounds": 120},
        ),
        "rate x 150": ("fast worse overfit not-finite", {"eta": 3.0, "rounds": 100, "patience": 0}),
        "sixty hours": (
            "overfit trees",
            {"count": 60, "depth": 10, "patience": 0, "eta": 0.3, "rounds": 500},
        ),
    },
)
