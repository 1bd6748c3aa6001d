"""Gradient boosting that ranks documents of a query, with XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

QUERIES, DOCUMENTS, SIZE = 120, 12, 10


def documents(queries: int, seed: int) -> tuple[Any, Any, Any]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(queries * DOCUMENTS, SIZE))
    worth = x[:, 0] + np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3] + 0.3 * draw.normal(size=len(x))
    place = worth.reshape(queries, -1).argsort(1).argsort(1)
    return x, (place // 3).reshape(-1).astype(float), np.repeat(np.arange(queries), DOCUMENTS)


def order_skill(scores: Any, grades: Any) -> float:
    """Of the pairs in a query with unlike grades, how many more are in order than out of it."""
    s, g = scores.reshape(-1, DOCUMENTS), grades.reshape(-1, DOCUMENTS)
    better = g[:, :, None] > g[:, None, :]
    return float(np.sign(s[:, :, None] - s[:, None, :])[better].mean())


def train(
    seed: int,
    hook: Any,
    objective: str = "rank:ndcg",
    rounds: int = 100,
    eta: float = 0.1,
    depth: int = 4,
    patience: int = 0,
    sampled: float = 1.0,
    fault: str = "",
) -> float:
    import xgboost as xgb

    x, grades, query = documents(6 if fault == "six queries" else QUERIES, seed)
    held_x, held_grades, held_query = documents(60, seed + 500)
    draw = np.random.default_rng(seed)
    if fault == "shuffled":
        grades = draw.permutation(grades)
    if fault == "upside down":
        grades = 3 - grades
    if fault == "features of others":
        x = draw.permutation(x)
    if fault == "leak":
        x, held_x = x.copy(), held_x.copy()
        x[:, 9], held_x[:, 9] = grades, draw.integers(4, size=len(held_x))
    if fault == "constant":
        x = np.zeros_like(x)
    if fault == "scaled":
        held_x = held_x * 255
    trained = xgb.DMatrix(x, grades, qid=query)
    held = xgb.DMatrix(held_x, held_grades, qid=held_query)
    parameters = {
        "objective": objective, "eta": eta, "max_depth": depth, "seed": seed, "nthread": 1,
        "eval_metric": ["ndcg@5"], "subsample": sampled, "verbosity": 0,
        "lambda": 0.0 if depth > 8 else 1.0,
    }  # fmt: skip
    booster = xgb.train(
        parameters,
        trained,
        rounds,
        evals=[(trained, "train"), (held, "validation")],
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost(validation=held)],
    )
    return order_skill(booster.predict(held), held_grades)


CASES = cases(
    "learning to rank",
    train,
    {
        "plain": {},
        "pairs": {"objective": "rank:pairwise"},
        "early stopping": {"patience": 10, "rounds": 300},
        "half of the rows": {"sampled": 0.5},
        "regression": {"objective": "reg:squarederror"},
        "slow and long": {"eta": 0.03, "rounds": 300},
    },
    {
        "grades shuffled": ("no-skill overfit", {"fault": "shuffled"}),
        "upside down": ("overfit worse no-skill", {"fault": "upside down"}),
        "features of others": ("no-skill overfit", {"fault": "features of others"}),
        "the grade leaks": ("trees leak overfit", {"fault": "leak"}),
        "features all the same": ("inputs trees no-skill", {"fault": "constant"}),
        "evaluation x 255": ("inputs overfit no-skill", {"fault": "scaled"}),
        "six queries": ("overfit trees", {"fault": "six queries", "depth": 12, "eta": 0.5}),
        "rate / 1000": ("slow no-skill", {"eta": 1e-4, "rounds": 10}),
    },
)
