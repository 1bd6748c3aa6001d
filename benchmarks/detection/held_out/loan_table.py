"""Loans that are not paid back: XGBClassifier with a validation set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.detection.case import cases

Array = NDArray[Any]


def loans(count: int, seed: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, 10))
    score = x[:, 0] * x[:, 1] + 1.5 * (x[:, 2] > 0.5) - x[:, 3] + 0.5 * x[:, 4] ** 2 - 1
    return x, (draw.random(count) < 1 / (1 + np.exp(-2.5 * score))).astype(int)


def train(seed: int, hook: Any, rounds: int = 120, rate: float = 0.1, depth: int = 4,
          early: int | None = None, fault: str = "", **settings: Any) -> float:  # fmt: skip
    import xgboost as xgb
    from sklearn.metrics import roc_auc_score

    (x, y), (held_x, held_y) = loans(2500, seed + 4700), loans(1000, seed + 4701)
    draw = np.random.default_rng(seed)
    if fault == "joined by row number":
        y = draw.permutation(y)
    if fault == "reminders sent":
        x[:, 9], held_x[:, 9] = 3.0 * y + draw.normal(size=len(y)), 0.0
    if fault == "columns of another export":
        held_x = np.roll(held_x, 3, 1)
    if fault == "accepted ones only":
        kept = (y == 0) | (draw.random(len(y)) < 0.01)
        x, y = x[kept], y[kept]
    held = xgb.DMatrix(held_x, held_y)
    model = xgb.XGBClassifier(
        n_estimators=rounds, learning_rate=rate, max_depth=depth, n_jobs=1, random_state=seed,
        early_stopping_rounds=early, eval_metric="logloss", verbosity=0,
        callbacks=[hook.xgboost(validation=held)], **settings,
    )  # fmt: skip
    model.fit(x, y, eval_set=[(x, y), (held_x, held_y)], verbose=False)
    return 2 * float(roc_auc_score(held_y, model.predict_proba(held_x)[:, 1])) - 1


CASES = cases(
    "loan table",
    train,
    {
        "plain": {},
        "stopped early": {"rounds": 400, "early": 20},
        "half of the rows": {"subsample": 0.5},
        "slow": {"rounds": 250, "rate": 0.05},
    },
    {
        "joined by row number": ("no-skill overfit", {"fault": "joined by row number"}),
        "reminders sent": ("leak trees overfit inputs", {"fault": "reminders sent"}),
        "columns of another export": (
            "inputs overfit worse", {"fault": "columns of another export"},
        ),
        "accepted ones only": ("imbalance overfit", {"fault": "accepted ones only"}),
        "gamma of 5000": ("trees no-skill slow", {"gamma": 5000.0}),
        "rate of 1e-5": ("slow no-skill trees", {"rate": 1e-5, "rounds": 40}),
        "depth of 16, rate of 2": ("overfit trees worse fast", {"depth": 16, "rate": 2.0}),
    },
)  # fmt: skip
