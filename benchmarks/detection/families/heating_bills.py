"""What it costs to heat a flat for a year, by XGBRegressor with a validation set.

Area, floor, insulation, year, windows, heating, people, a thermostat's mean and the town's degree
days are known; some are missing. The skill is the share of the costs' variance that is explained,
of other flats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained
from numpy.typing import NDArray

from benchmarks.detection.case import cases

Array = NDArray[Any]


def flats(count: int, seed: int) -> tuple[Array, Array]:
    """Nine columns and one without meaning, with gaps, and euros a year."""
    draw = np.random.default_rng(seed)
    area = draw.gamma(6.0, 12.0, count) + 20
    floor, top = draw.integers(0, 6, count), draw.random(count) < 0.25
    year = draw.integers(1900, 2021, count)
    renewed = draw.random(count) < 0.3
    kind = draw.choice(4, count, p=[0.5, 0.2, 0.2, 0.1])
    people, warm = draw.integers(1, 6, count), draw.normal(20.5, 1.3, count)
    days = draw.choice([2400.0, 2800.0, 3100.0, 3600.0], count)
    loss = np.where(renewed, 0.7, np.interp(year, [1900, 1978, 1995, 2020], [1.8, 1.6, 1.0, 0.5]))
    outside = 1 + 0.35 * top + 0.25 * (floor == 0)
    need = 0.024 * area**0.95 * days * loss * outside * (1 + 0.07 * (warm - 20)) - 60 * people
    price = np.array([0.11, 0.14, 0.09, 0.22])[kind]
    euros = np.maximum(price * need, 60) * np.exp(0.06 * draw.standard_normal(count))
    other = draw.uniform(0, 100, count)
    x = np.column_stack([area, floor, top, year, renewed, kind, people, warm, days, other])
    x[draw.random(x.shape) < 0.02] = np.nan
    return x, euros


def logarithm_error(wanted: Array, found: Array) -> float:
    return float(np.abs(np.log1p(np.maximum(found, 0)) - np.log1p(wanted)).mean())


def train(
    seed: int, hook: Any, rounds: int = 300, rate: float = 0.08, depth: int = 4, count: int = 3000,
    logarithm: bool = False, stop: int | None = None, metric: Any = "rmse", evaluated: bool = True,
    noise: float = 0.0, weighted: bool = False, fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    (x, y), (held_x, held_y) = flats(count, 13 * seed + 310), flats(700, 13 * seed + 311)
    test_x, test_y = flats(2000, 13 * seed + 312)
    draw = np.random.default_rng(seed)
    if noise:  # some bills are of half a year
        y = np.where(draw.random(count) < noise, y / 2, y)
    if fault == "joined on the row's number":
        y = y[np.argsort(x[:, 8], kind="stable")]
    if fault == "sorted by year, split after":  # old houses are learned, new ones are asked
        x, y = x[x[:, 3] < 1960], y[x[:, 3] < 1960]
        held_x, held_y = held_x[held_x[:, 3] >= 1960], held_y[held_x[:, 3] >= 1960]
        test_x, test_y = test_x[test_x[:, 3] >= 1960], test_y[test_x[:, 3] >= 1960]
    if fault == "square feet when asked":
        held_x, test_x = held_x * ([10.8] + [1.0] * 9), test_x * ([10.8] + [1.0] * 9)
    wanted, held_wanted = (np.log(y), np.log(held_y)) if logarithm else (y, held_y)
    model = xgb.XGBRegressor(
        n_estimators=rounds, learning_rate=rate, max_depth=depth, early_stopping_rounds=stop,
        eval_metric=metric, random_state=seed, n_jobs=1, callbacks=[hook.xgboost()],
        **({"subsample": 0.8, "colsample_bytree": 0.8} | settings),
    )  # fmt: skip
    model.fit(
        x,
        wanted,
        sample_weight=1 / np.sqrt(y) if weighted else None,
        eval_set=[(x, wanted), (held_x, held_wanted)] if evaluated else None,
        verbose=False,
    )
    found = torch.as_tensor(model.predict(test_x).astype("float64"))
    found = found.exp() if logarithm else found
    return explained(found, torch.as_tensor(test_y)) if found.isfinite().all() else math.nan


CASES = cases(
    "heating bills",
    train,
    {
        "plain": {},
        "logarithm, stops early": {"logarithm": True, "stop": 20, "rounds": 500},
        "absolute error": {
            "objective": "reg:absoluteerror", "rate": 0.1, "rounds": 600, "metric": "mae",
        },
        "gamma deviance": {"objective": "reg:gamma", "metric": "gamma-nloglik"},
        "shallow, not evaluated": {"depth": 3, "rounds": 450, "evaluated": False},
        "own metric, weights of rows": {"metric": logarithm_error, "weighted": True},
        "some bills of half a year": {"noise": 0.03, "min_child_weight": 10, "rate": 0.05},
    },
    {
        "joined on the row's number": (
            "no-skill overfit", {"fault": "joined on the row's number"},
        ),
        "old houses only": (
            "overfit order inputs worse", {"fault": "sorted by year, split after"},
        ),
        "square feet when asked": ("inputs overfit worse", {"fault": "square feet when asked"}),
        "rate of 0.001": ("slow no-skill", {"rate": 0.001}),
        "a child of 1000 flats": ("trees no-skill slow", {"min_child_weight": 1000}),
        "thirty flats": ("overfit", {"count": 30}),
    },
)  # fmt: skip
