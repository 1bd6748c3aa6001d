"""The tensile strength of steel from its alloy and heat treatment, by xgb.train on DMatrix.

Six shares of elements, the bath, temperature and hours of tempering, thickness and the number of
the furnace are known. The skill is the share of the variance that is explained for other heats.
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
NAMES = ("C", "Mn", "Si", "Cr", "Ni", "Mo", "bath", "temper", "hours", "thickness", "furnace")
PARAMS = {"eta": 0.05, "max_depth": 4, "subsample": 0.8, "colsample_bytree": 0.8, "nthread": 1}


def heats(count: int, seed: int) -> tuple[Array, Array]:
    """Eleven columns, and megapascals."""
    draw = np.random.default_rng(seed)
    carbon = draw.uniform(0.1, 0.65, count)
    others = draw.gamma(2.0, (0.4, 0.13, 0.35, 0.5, 0.1), (count, 5))
    bath = draw.choice(3, count, p=[0.4, 0.4, 0.2])  # oil, water, air
    temper, hours = draw.uniform(180, 680, count), draw.choice([0.5, 1.0, 2.0, 4.0], count)
    thickness = draw.lognormal(3.2, 0.5, count)
    depth = others @ np.array([0.8, 0.4, 1.1, 0.5, 2.2]) + 2 * carbon
    through = 1 / (1 + np.exp(2.2 * np.log(thickness / 22) - 2 * depth + 1.5))
    through = through * np.array([0.9, 1.0, 0.35])[bath]
    hard = 700 + 1900 * np.sqrt(carbon)
    softened = 1 / (1 + np.exp(-(temper + 25 * np.log2(hours) - 470 - 90 * others[:, 4]) / 75))
    soft = 380 + 620 * carbon + 70 * others[:, 0] + 40 * others[:, 2]
    strength = soft + through * (hard - soft) * (1 - 0.75 * softened)
    strength = strength * np.exp(0.03 * draw.standard_normal(count))
    furnace = draw.integers(1, 9, count)
    return np.column_stack([carbon, others, bath, temper, hours, thickness, furnace]), strength


def huber(found: Array, data: Any) -> tuple[Array, Array]:
    """Gradient and curvature of the pseudo-Huber loss, which bends at 50 megapascals."""
    away = (found - data.get_label()) / 50
    root = np.sqrt(1 + away**2)
    return 50 * away / root, 1 / root


def square_turned(found: Array, data: Any) -> tuple[Array, Array]:
    return data.get_label() - found, np.ones_like(found)


def worst_tenth(found: Array, data: Any) -> tuple[str, float]:
    return "worst_tenth", float(np.quantile(np.abs(found - data.get_label()), 0.9))


def train(
    seed: int, hook: Any, rounds: int = 500, count: int = 8000, stop: int | None = None,
    own: Any = None, metric: Any = None, watched: str = "both", logarithm: bool = False,
    noise: float = 0.0, categories: bool = False, fault: str = "", **more: Any,
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    (x, y), (held_x, held_y) = heats(count, 17 * seed + 710), heats(800, 17 * seed + 711)
    test_x, test_y = heats(2000, 17 * seed + 712)
    names = list(NAMES)
    if noise:  # two digits of the protocol were exchanged
        wrong = np.random.default_rng(seed).random(count) < noise
        y = np.where(wrong, y.round() % 100 * 10 + y.round() // 100, y)
    if fault == "joined after a sort":
        y = y[np.argsort(x[:, -1], kind="stable")]
    if fault == "columns in another order when asked":
        order = np.argsort(NAMES)
        held_x, test_x, names = held_x[:, order], test_x[:, order], []
    if fault == "hardness of the finished part":  # it is not measured before the sale
        spread = np.random.default_rng(seed)
        x, held_x = (
            np.column_stack([of, wanted / 3.3 + spread.normal(0, 3, len(of))])
            for of, wanted in ((x, y), (held_x, held_y))
        )
        test_x = np.column_stack([test_x, np.full(len(test_x), np.nan)])
        names = [*names, "hardness"]

    def matrix(of: Array, wanted: Array | None = None) -> Any:
        kinds = ["c" if name in ("bath", "furnace") else "float" for name in names]
        return xgb.DMatrix(
            of, np.log(wanted) if logarithm and wanted is not None else wanted,
            feature_names=names or None, feature_types=kinds if categories else None,
            enable_categorical=categories,
        )  # fmt: skip

    data, held = matrix(x, y), matrix(held_x, held_y)
    evals = {"both": [(data, "train"), (held, "eval")], "eval": [(held, "eval")]}.get(watched, [])
    if own:
        more["base_score"] = 1000.0
    booster = xgb.train(
        PARAMS | {"seed": seed} | more, data, rounds, evals=evals, obj=own, custom_metric=metric,
        early_stopping_rounds=stop, callbacks=[hook.xgboost()], verbose_eval=False,
    )  # fmt: skip
    found = torch.as_tensor(booster.predict(matrix(test_x)).astype("float64"))
    found = found.exp() if logarithm else found
    return explained(found, torch.as_tensor(test_y)) if found.isfinite().all() else math.nan


CASES = cases(
    "steel strength",
    train,
    {
        "plain": {},
        "own Huber loss, some digits exchanged": {"own": huber, "noise": 0.02},
        "logarithm, stopped early": {"logarithm": True, "stop": 25, "rounds": 1000, "eta": 0.1},
        "categories, leaves by loss": {
            "categories": True, "tree_method": "hist", "grow_policy": "lossguide",
            "max_leaves": 20, "max_depth": 0,
        },
        "monotone in carbon, own metric alone": {
            "monotone_constraints": "(1,0,0,0,0,0,0,-1,0,0,0)", "metric": worst_tenth,
            "watched": "eval", "disable_default_eval_metric": 1,
        },
        "four trees a round, high rate": {"num_parallel_tree": 4, "eta": 0.3, "rounds": 120},
        "not watched, strong penalties": {"watched": "", "lambda": 50, "alpha": 5, "eta": 0.1},
    },
    {
        "joined after a sort": ("no-skill overfit", {"fault": "joined after a sort"}),
        "columns in another order when asked": (
            "inputs overfit worse", {"fault": "columns in another order when asked"},
        ),
        "hardness of the finished part": (
            "leak trees", {"fault": "hardness of the finished part"},
        ),
        "gradient's sign turned round": ("worse fast no-skill", {"own": square_turned}),
        "thirty rounds at 0.01": ("slow", {"eta": 0.01, "rounds": 30}),
        "gamma of 1e9": ("trees no-skill slow", {"gamma": 1e9}),
    },
)  # fmt: skip
