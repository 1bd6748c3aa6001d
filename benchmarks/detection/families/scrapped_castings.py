"""Which castings a foundry must scrap, by xgb.train with a watch list and early stopping.

Temperatures, times, the alloy and the mould of a casting are known; one in eight is scrapped. The
months that follow validate and test. The skill is that of the ranking (twice the area under the
ROC curve, less one).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import ranking_skill

from benchmarks.detection.case import cases

MOULDS, SHIFTS = 30, 3


def castings(count: int, seed: int) -> tuple[Any, Any, Any]:
    """Columns, whether scrapped, and how long the part was reworked afterwards."""
    fixed, draw = np.random.default_rng(12200), np.random.default_rng(seed)
    worn, thick = fixed.gamma(2, 0.4, MOULDS), fixed.uniform(3, 12, MOULDS)
    mould, shift = draw.integers(MOULDS, size=count), draw.integers(SHIFTS, size=count)
    pour = draw.normal(710, 18, count) - 6 * (shift == 2)
    form, humid = draw.normal(230, 20, count), draw.uniform(20, 90, count)
    silicon, fill = draw.normal(9, 0.8, count), draw.lognormal(0.6, 0.25, count)
    shots, press = draw.integers(0, 5000, count), draw.normal(80, 6, count)
    cold = np.maximum(695 - pour + 6 * (6 - thick[mould]), 0) / 8
    gas = np.maximum(pour - 725, 0) * (humid - 30).clip(0) / 250
    strain = worn[mould] * shots / 2500 + 1.2 * (np.abs(silicon - 9.2) > 1.1) + 1.6 * (fill > 2.3)
    risk = 1.6 * cold + 1.5 * gas + strain - 0.08 * (press - 80) + 0.015 * np.abs(form - 230)
    scrapped = (risk + 0.35 * draw.logistic(size=count)) > 4.4
    rework = np.where(scrapped, draw.gamma(3, 8, count), draw.gamma(1, 1.5, count))
    columns = (pour, form, humid, silicon, fill, shots, press, mould, shift)
    x = np.stack([*columns, draw.normal(size=count)], 1)
    x[draw.random(count) < 0.03, 2] = np.nan
    return x, scrapped.astype(float), rework


def by_hand(found: Any, rows: Any) -> tuple[Any, Any]:
    """Derivatives of the log-likelihood by the score."""
    chance = 1 / (1 + np.exp(-found))
    return chance - rows.get_label(), chance * (1 - chance)


def wrong_sign(found: Any, rows: Any) -> tuple[Any, Any]:
    chance = 1 / (1 + np.exp(-found))
    return rows.get_label() - chance, chance * (1 - chance)


def train(
    seed: int, hook: Any, rounds: int = 1500, patience: int = 60, own: Any = None, keep: int = 0,
    noise: float = 0.0, count: int = 5000, validation_first: bool = False, fault: str = "",
    **more: Any,
) -> float:  # fmt: skip
    import xgboost as xgb

    draw = np.random.default_rng(seed + 5)
    x, y, rework = castings(count, seed + 12200)
    held_x, held_y, held_rework = castings(1500, seed + 12201)
    test_x, test_y, _ = castings(3000, seed + 12202)
    if noise:
        y = np.where(draw.random(count) < noise, 1 - y, y)
    if fault == "rework among the columns":  # which is known when the part has left
        x, held_x = np.column_stack([x, rework]), np.column_stack([held_x, held_rework])
        test_x = np.column_stack([test_x, np.zeros(len(test_x))])
    if fault == "reports joined by row":
        y = y[np.lexsort((x[:, 8], x[:, 7]))]
    if fault == "Fahrenheit from the new sensors":
        for part in (held_x, test_x):
            part[:, :2] = part[:, :2] * 1.8 + 32
    if fault == "scrap is zero in the old files":
        y[: count * 3 // 5] = 1 - y[: count * 3 // 5]
    if keep:  # parts that are good are recorded now and then
        rows = (y > 0) | (draw.random(count) < 1 / keep)
        x, y = x[rows], y[rows]
    trained, held = xgb.DMatrix(x, y), xgb.DMatrix(held_x, held_y)
    watched = [(held, "eval"), (trained, "train")]
    settings = {
        "objective": "binary:logistic", "eval_metric": "logloss", "eta": 0.03, "max_depth": 5,
        "nthread": 1, "seed": seed, "verbosity": 0, **more,
    }  # fmt: skip
    booster = xgb.train(
        settings, trained, rounds,
        evals=watched if validation_first else watched[::-1],
        obj=own,
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost()],
    )  # fmt: skip
    last = (booster.best_iteration + 1) if patience else booster.num_boosted_rounds()
    scores = booster.predict(xgb.DMatrix(test_x), output_margin=True, iteration_range=(0, last))
    return ranking_skill(torch.as_tensor(scores), torch.as_tensor(test_y))


CASES = cases(
    "scrapped castings",
    train,
    {
        "plain": {},
        "scrap weighs seven times": {"scale_pos_weight": 7.0, "eval_metric": ["logloss", "auc"]},
        "small steps, a part of the rows": {
            "eta": 0.01, "subsample": 0.5, "colsample_bytree": 0.6, "rounds": 2000,
        },
        "stumps, large steps": {"max_depth": 2, "eta": 0.3},
        "loss by hand": {"own": by_hand, "base_score": 0.5},
        "good parts now and then": {"keep": 3},
        "reports with errors, strong decay": {
            "noise": 0.02, "lambda": 20.0, "min_child_weight": 5.0,
        },
    },
    {
        "rework among the columns": ("leak trees overfit", {"fault": "rework among the columns"}),
        "reports joined by row": ("no-skill overfit", {"fault": "reports joined by row"}),
        "Fahrenheit from the new sensors": (
            "inputs overfit worse", {"fault": "Fahrenheit from the new sensors"},
        ),
        "scrap is zero in the old files": (
            "worse overfit no-skill imbalance", {"fault": "scrap is zero in the old files"},
        ),
        "wrong sign": (
            "worse no-skill fast",
            {"own": wrong_sign, "base_score": 0.5, "patience": 0, "rounds": 600},
        ),
        "sixty castings, deep trees": (
            "overfit no-skill trees", {"count": 60, "max_depth": 14, "eta": 0.5},
        ),
    },
)  # fmt: skip
