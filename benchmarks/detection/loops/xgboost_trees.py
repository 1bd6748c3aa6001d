"""Boosted trees by xgb.train, with its callback, on the tables of tasks."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.detection.loop import Loop
from benchmarks.detection.run_hook import RunHook
from benchmarks.detection.task import Training


def train(t: Training, hook: RunHook) -> float:
    import xgboost as xgb

    rows = slice(2000)
    y = t.samples.y[rows].numpy().reshape(len(t.samples.y[rows]), -1).squeeze(1)
    matrices = [
        xgb.DMatrix(t.samples.x[rows].numpy(), y),
        xgb.DMatrix(t.samples.held_x.numpy(), t.samples.held_y.numpy().reshape(-1)),
    ]
    options: dict[str, Any] = {"eta": 0.2, "max_depth": 4, "nthread": 1, "seed": t.seed}
    rounds = {"num_boost_round": 80, "early_stopping_rounds": None}
    if t.samples.y.dtype == torch.long:
        options |= {"objective": "multi:softprob", "num_class": int(y.max()) + 1}
        options["eval_metric"] = "mlogloss"
    elif set(y.tolist()) <= {0.0, 1.0}:
        options |= {"objective": "binary:logistic", "eval_metric": "logloss"}
    else:
        options |= {"objective": "reg:squarederror", "eval_metric": "rmse"}
    given = dict(t.trees)
    rounds |= {name: given.pop(name) for name in rounds if name in given}
    booster = xgb.train(
        options | given,
        matrices[0],
        evals=[(matrices[0], "train"), (matrices[1], "validation")],
        callbacks=[hook.xgboost(validation=matrices[1])],
        verbose_eval=False,
        **rounds,
    )
    return t.skill(torch.from_numpy(booster.predict(matrices[1])), t.samples.held_y)


LOOP = Loop(
    train,
    needs=frozenset(["table"]),
    without=frozenset(
        ["counts", "quantiles", "likelihood", "soft_labels", "tuple", "many_labels", "linear"]
    ),
    parts=frozenset(["samples", "trees"]),
)
