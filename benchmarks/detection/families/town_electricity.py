"""A town's demand of electricity by the hour, by XGBoost with many rounds and several eval sets.

Two years of hours with weather, calendar and the demand of a week before; the third year is split
into validation and test. The skill is the share of the variance of demand that is explained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, explained

from benchmarks.detection.case import cases

WEEK = 168


def demand(days: int, seed: int) -> tuple[Any, Any]:
    """Features (hours, 7) and megawatts (hours,)."""
    draw = np.random.default_rng(seed)
    hour = np.arange(24 * days)
    clock, day = hour % 24, hour // 24
    slow = np.convolve(draw.normal(0, 1.5, len(hour) + 47), np.ones(48) / 7, "valid")
    warmth = 12 - 9 * np.cos(2 * np.pi * day / 365) + 3 * np.sin(2 * np.pi * clock / 24 - 2) + slow
    free = (day % 7 >= 5) | (draw.random(days) < 0.03)[day]
    cloud = np.clip(0.5 + 0.3 * slow + draw.normal(0, 0.2, len(hour)), 0, 1)
    peaks = np.exp(-(((clock - 8) / 2.5) ** 2)) + 1.3 * np.exp(-(((clock - 19) / 3) ** 2))
    heating, cooling = np.clip(15 - warmth, 0, None), np.clip(warmth - 22, 0, None)
    load = 300 + 120 * peaks * np.where(free, 0.6, 1.0) + 6 * heating + 9 * cooling - 40 * free
    load = load + 25 * cloud * (clock > 7) * (clock < 18) + draw.normal(0, 12, len(hour))
    before = np.concatenate([load[:WEEK], load[:-WEEK]])
    x = np.stack([clock, day % 7, day % 365, warmth, cloud, free, before], 1)
    return x[WEEK:], load[WEEK:]


def train(
    seed: int, hook: Any, rounds: int = 300, settings: Any = None, objective: str = "",
    watched: str = "both", stop: int = 30, days: int = 500, gaps: bool = False,
    weighted: bool = False, continued: int = 0, unit: float = 1.0, falling: bool = False,
    base: bool = False, fault: str = "",
) -> float:  # fmt: skip
    import xgboost

    begin(seed)
    x, y = demand(days, seed + 700)
    later_x, later_y = demand(180 + 185, seed + 701)
    later = np.arange(len(later_y)) // WEEK % 2 == 0
    held_x, held_y, test_x, test_y = (of[w] for w in (later, ~later) for of in (later_x, later_y))
    draw = np.random.default_rng(seed)
    if gaps:
        x = np.where(draw.random(x.shape) < 0.1, np.nan, x)
    if fault == "rows of another table":
        y = draw.permutation(y)
    if fault == "fahrenheit and kilowatts later":
        test_x = test_x * [1, 1, 1, 1.8, 100, 1, 1000] + [0, 0, 0, 32, 0, 0, 0]
    y, held_y, test_y = y * unit, held_y * unit, test_y * unit
    weight = np.linspace(0.1, 1, len(y)) if weighted else None
    data = xgboost.DMatrix(x, y, weight=weight)
    held = xgboost.DMatrix(held_x, held_y)
    if base:
        for matrix, rows in ((data, x), (held, held_x)):
            matrix.set_base_margin(np.nan_to_num(rows[:, 6], nan=400.0))
    evals = {
        "both": [(data, "train"), (held, "held")],
        "one": [(held, "held")],
        "three": [
            (data, "train"),
            (xgboost.DMatrix(held_x[held_x[:, 5] > 0], held_y[held_x[:, 5] > 0]), "free"),
            (held, "held"),
        ],
        "none": [],
    }[watched]
    chosen = {"eta": 0.1, "max_depth": 5, "seed": seed, "nthread": 1, "subsample": 0.8}
    chosen |= settings or {}
    own: Any = {}
    if objective == "squares by hand":
        own["obj"] = lambda found, of: (found - of.get_label(), np.ones_like(found))
    elif objective == "fair loss by hand":

        def fair(found: Any, of: Any) -> tuple[Any, Any]:
            apart = found - of.get_label()
            return 40 * apart / (np.abs(apart) + 40), 1600 / (np.abs(apart) + 40) ** 2

        own["obj"] = fair
        chosen["base_score"] = 400.0
    elif objective:
        chosen["objective"] = objective
    callbacks: list[Any] = [hook.xgboost()]
    if falling:
        callbacks.append(xgboost.callback.LearningRateScheduler(lambda r: 0.3 * 0.99**r + 0.01))
    early = stop if evals and stop else None
    model = xgboost.train(
        chosen, data, rounds, evals=evals, early_stopping_rounds=early, callbacks=callbacks,
        verbose_eval=False, **own,
    )  # fmt: skip
    if continued:
        model = xgboost.train(
            chosen | {"eta": 0.02}, data, continued, evals=evals, xgb_model=model,
            callbacks=[hook.xgboost()], verbose_eval=False, **own,
        )  # fmt: skip
    test = xgboost.DMatrix(test_x)
    if base:
        test.set_base_margin(test_x[:, 6])
    best = getattr(model, "best_iteration", None) if early and not continued else None
    found = model.predict(test, iteration_range=(0, 0 if best is None else best + 1))
    return explained(torch.as_tensor(found).double() / unit, torch.as_tensor(test_y) / unit)


CASES = cases(
    "town electricity",
    train,
    {
        "plain": {},
        "slow, a thousand rounds": {
            "rounds": 1000, "settings": {"eta": 0.02, "max_depth": 3}, "stop": 50,
        },
        "squares by hand": {"objective": "squares by hand", "watched": "three"},
        "fair loss by hand": {"objective": "fair loss by hand"},
        "gamma deviance, falling rate": {"objective": "reg:gamma", "falling": True},
        "a base from the week before": {"base": True},
        "gaps, the newest weigh more": {"gaps": True, "weighted": True},
        "continued at a lower rate": {"rounds": 120, "continued": 80, "stop": 0},
        "trees dropped": {
            "settings": {"booster": "dart", "rate_drop": 0.05, "skip_drop": 0.5}, "rounds": 150,
            "stop": 0,
        },
        "few days, not watched": {
            "days": 400, "watched": "none", "rounds": 200,
            "settings": {"max_leaves": 12, "grow_policy": "lossguide", "reg_lambda": 50.0},
        },
        "watts, absolute error": {"unit": 1e6, "objective": "reg:absoluteerror"},
    },
    {
        "rows of another table": ("no-skill overfit trees", {"fault": "rows of another table"}),
        "penalty in other units": (
            "trees no-skill slow", {"settings": {"gamma": 1e9, "eta": 0.02}},
        ),
        "other units later": ("inputs", {"fault": "fahrenheit and kilowatts later"}),
    },
)  # fmt: skip
