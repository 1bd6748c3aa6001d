"""Kinds of soil from the values of a laboratory: boosted trees with probabilities of kinds.

Six kinds differ in sand, clay, acidity, carbon, lime and depth to rock, and rare ones are as rare
as on the map. Columns are correlated, some values are missing. The skill is the mean recall of
kinds above chance in samples of other places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import balanced_skill, begin
from numpy.typing import NDArray

from benchmarks.detection.case import cases

KINDS = 6
SHARES = np.array([0.3, 0.25, 0.18, 0.13, 0.08, 0.06])
Array = NDArray[Any]


def samples(count: int, seed: int) -> tuple[Array, Array]:
    """Ten columns with gaps, and the kinds."""
    world = np.random.default_rng(964)
    middles = world.normal(0, 1.3, (KINDS, 6))
    draw = np.random.default_rng(seed)
    kind = draw.choice(KINDS, count, p=SHARES)
    hidden = middles[kind] + 0.75 * draw.standard_normal((count, 6))
    sand = 100 / (1 + np.exp(-hidden[:, 0] * 0.7))
    clay = (100 - sand) / (1 + np.exp(-hidden[:, 1]))
    acid = 6 + 0.8 * hidden[:, 2]
    carbon, lime, rock = (np.exp(hidden[:, column]) for column in (3, 4, 5))
    others = [carbon / (8 + draw.random(count)), 1.6 - 0.02 * carbon, draw.uniform(0, 1500, count)]
    x = np.column_stack([sand, clay, 100 - sand - clay, acid, carbon, lime, 40 * rock, *others])
    x[draw.random(x.shape) < 0.03] = np.nan
    return x.astype("float32"), kind


def train(
    seed: int, hook: Any, rounds: int = 80, count: int = 2500, weighted: bool = False,
    noise: float = 0.0, evaluated: bool = True, stop: int = 0, fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    (x, y), (held_x, held_y) = samples(count, seed + 9640), samples(600, seed + 9641)
    test_x, test_y = samples(2000, seed + 9642)
    draw = np.random.default_rng(seed)
    if noise:
        y = np.where(draw.random(count) < noise, draw.permutation(y), y)
    if fault == "sorted apart from the labels":
        x = x[np.argsort(x[:, 0])]
    if fault == "kind among the columns":  # a code that is made of the kind, unknown for others
        x = np.column_stack([x, 10.0 * y])
        held_x = np.column_stack([held_x, 10.0 * held_y])
        test_x = np.column_stack([test_x, np.full(len(test_x), -1.0)])
    if fault == "columns in another order":
        held_x, test_x = held_x[:, ::-1], test_x[:, ::-1]
    if fault == "map in parts":  # the first half of the sheet has three kinds alone
        x, y = x[y < 3], y[y < 3]
    how: dict[str, Any] = {
        "objective": "multi:softprob", "num_class": KINDS, "eta": 0.15, "max_depth": 4,
        "subsample": 0.8, "colsample_bytree": 0.8, "seed": seed, "nthread": 1,
    }  # fmt: skip
    weights = 1 / (KINDS * np.bincount(y, minlength=KINDS)[y] / len(y)) if weighted else None
    training = xgb.DMatrix(x, y, weight=weights)
    held = xgb.DMatrix(held_x, held_y)
    callbacks: list[Any] = [hook.xgboost()]
    if stop:
        callbacks.append(xgb.callback.EarlyStopping(stop, save_best=True))
    booster = xgb.train(
        how | settings,
        training,
        rounds,
        evals=[(training, "train"), (held, "held")] if evaluated else [(training, "train")],
        callbacks=callbacks,
        verbose_eval=False,
    )
    scores = booster.predict(xgb.DMatrix(test_x)).reshape(len(test_y), -1)
    return balanced_skill(torch.as_tensor(scores), torch.as_tensor(test_y))


CASES = cases(
    "soil kinds",
    train,
    {
        "plain": {},
        "kinds weighted, stops early": {"weighted": True, "rounds": 200, "stop": 10},
        "dart": {"booster": "dart", "rate_drop": 0.1, "skip_drop": 0.5, "rounds": 50},
        "best leaf first": {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0},
        "small subsamples, slow": {
            "subsample": 0.3, "sampling_method": "uniform", "eta": 0.05, "rounds": 150,
        },
        "stumps of depth two, not evaluated": {"max_depth": 2, "rounds": 150, "evaluated": False},
        "some labels wrong": {"noise": 0.1},
    },
    {
        "sorted apart from the labels": (
            "no-skill overfit", {"fault": "sorted apart from the labels"},
        ),
        "kind among the columns": (
            "leak overfit worse",
            {"fault": "kind among the columns", "colsample_bytree": 1.0},
        ),
        "columns in another order": (
            "inputs overfit worse", {"fault": "columns in another order"},
        ),
        "three kinds on the first sheets": (
            "imbalance order overfit worse", {"fault": "map in parts"},
        ),
        "penalty for splits of 500": ("trees slow no-skill", {"gamma": 500.0}),
        "thirty samples": ("overfit imbalance", {"count": 30}),
    },
)  # fmt: skip
