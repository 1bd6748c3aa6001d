"""Gradient boosting of numbers and classes with XGBoost, ended when it gets no better."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

SIZE = 10


def samples(count: int, kinds: int, seed: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, SIZE))
    score = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3]
    y = score + 0.2 * draw.normal(size=count)
    return x, (np.digitize(y, [-1.0, 0.0, 1.0][: kinds - 1]) if kinds else y)


def train(
    seed: int, hook: Any, kinds: int = 0, rounds: int = 400, eta: float = 0.1, depth: int = 4,
    patience: int = 15, penalty: float = 1.0, noise: float = 0.0, count: int = 2000,
    fault: str = "",
) -> float:  # fmt: skip
    import xgboost as xgb

    (x, y), (held, held_y) = samples(count, kinds, seed), samples(1500, kinds, seed + 600)
    draw = np.random.default_rng(seed)
    if fault == "shuffled":
        y = draw.permutation(y)
    if fault == "constant":
        x = np.ones_like(x)
    if fault == "scaled evaluation":
        held = held * 255
    if fault == "columns turned":
        held = np.roll(held, 1, 1)
    if fault == "leak":
        x, held = x.copy(), held.copy()
        x[:, 9], held[:, 9] = y, draw.permutation(held_y)
    y = y + noise * draw.normal(size=count) if noise else y
    trained, other = xgb.DMatrix(x, y), xgb.DMatrix(held, held_y)
    objective = "multi:softprob" if kinds > 2 else "binary:logistic" if kinds else ""
    parameters = {
        "objective": objective or "reg:squarederror", "eta": eta, "max_depth": depth,
        "lambda": penalty, "nthread": 1, "seed": seed, "verbosity": 0,
        **({"num_class": kinds} if kinds > 2 else {}),
    }  # fmt: skip
    booster = xgb.train(
        parameters,
        trained,
        rounds,
        evals=[(trained, "train"), (other, "validation")],
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost(validation=other)],
    )
    found = booster.predict(other)
    if not kinds:
        return float(1 - ((found - held_y) ** 2).mean() / held_y.var())
    best = found.argmax(1) if kinds > 2 else found > 0.5
    most = np.bincount(held_y).max() / len(held_y)
    return float(((best == held_y).mean() - most) / (1 - most))


CASES = cases(
    "early stopping",
    train,
    {
        "plain": {},
        "stumps": {"depth": 3, "eta": 0.2},
        "not ended": {"patience": 0, "rounds": 150},
        "labels with noise": {"noise": 0.2},
        "slow": {"eta": 0.05, "rounds": 500},
    },
    {
        "labels shuffled": ("no-skill overfit", {"fault": "shuffled"}),
        "features all the same": ("inputs trees no-skill", {"fault": "constant"}),
        "evaluation x 255": ("inputs overfit", {"fault": "scaled evaluation"}),
        "columns turned in evaluation": ("inputs overfit", {"fault": "columns turned"}),
        "the label leaks": ("trees leak overfit", {"fault": "leak"}),
        "deep trees": (
            "overfit trees worse",
            {"depth": 14, "eta": 0.9, "penalty": 0.0, "count": 300, "patience": 0, "rounds": 100},
        ),
        "rate / 1000": ("slow no-skill", {"eta": 1e-4, "rounds": 60, "patience": 0}),
        "rate x 30": ("fast worse overfit", {"eta": 3.0, "rounds": 60, "patience": 0}),
    },
    seeds=(2, 2),
)
