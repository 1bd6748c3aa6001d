"""Which customers of a telephone company leave: XGBoost, classes weighted, ended by the AUC.

Contract, tariff, tenure, bills, complaints and use are given; one in eight leaves. The skill is
twice the area under the ROC curve, less one, in a third set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import ranking_skill

from benchmarks.detection.case import cases

CONTRACTS, PAYMENTS, NUMBERS = 3, 4, 8


def customers(count: int, seed: int) -> tuple[Any, Any]:
    """Eight numbers, then contract and way of payment as integers (N, 10); who left (N,)."""
    draw = np.random.default_rng(seed)
    contract = draw.choice(CONTRACTS, count, p=[0.55, 0.25, 0.2])
    payment = draw.integers(PAYMENTS, size=count)
    tenure = draw.gamma(1.2, 24, count) * (1 + 0.5 * contract)
    bill = 20 + 60 * draw.beta(2, 2, count) + 15 * (payment == 2)
    complaints = draw.poisson(0.6, count)
    minutes, data = draw.lognormal(5, 0.7, count), draw.lognormal(1.5, 0.9, count)
    fallen = draw.normal(size=count)
    age, lines = draw.normal(45, 15, count).clip(18, 95), 1 + draw.poisson(0.4, count)
    score = 1.6 * (contract == 0) - 1.2 * (contract == 2) - 0.9 * np.log1p(tenure / 12)
    score = score + 0.06 * (bill - 50) * (contract == 0) + 1.1 * complaints * (tenure < 40)
    score = score - 1.2 * fallen + 0.7 * (payment == 2) - 0.6 * (lines > 1)
    left = draw.random(count) < 1 / (1 + np.exp(-(1.7 * score - 5.2)))
    columns = (tenure, bill, complaints, minutes, data, fallen, age, lines, contract, payment)
    return np.stack(columns, 1).astype(float), left.astype(float)


def in_columns(x: Any) -> Any:
    ways = [np.eye(CONTRACTS)[x[:, 8].astype(int)], np.eye(PAYMENTS)[x[:, 9].astype(int)]]
    return np.column_stack([x[:, :NUMBERS], *ways])


def area(found: Any, rows: Any) -> tuple[str, float]:
    score, label = torch.as_tensor(found), torch.as_tensor(rows.get_label())
    return "area", (ranking_skill(score, label) + 1) / 2


def focal(sigmoid: bool) -> Any:
    """Gradients and curvatures of a weighted cross-entropy, as scripts write them."""

    def gradient(found: Any, rows: Any) -> tuple[Any, Any]:
        wanted = rows.get_label()
        p = 1 / (1 + np.exp(-found)) if sigmoid else found
        weight = 1 + 4 * wanted
        return weight * (p - wanted), weight * p * (1 - p)

    return gradient


def train(
    seed: int, hook: Any, eta: float = 0.1, rounds: int = 300, patience: int = 30, depth: int = 3,
    count: int = 5000, weight: float = 7.0, own: Any = None, metric: str = "auc",
    gaps: float = 0.0, fault: str = "", more: Any = None,
) -> float:  # fmt: skip
    import xgboost as xgb

    draw = np.random.default_rng(seed)
    tables = [customers(n, seed + 9600 + i) for i, n in enumerate((count, 1500, 4000))]
    parts = []
    for part, (x, y) in enumerate(tables):
        table = in_columns(x)
        if fault == "columns in another order" and part:
            numbers = [2, 0, 1, 5, 3, 4, 7, 6]  # as the other export has them
            table = table[:, [*numbers, *range(NUMBERS, table.shape[1])]]
        if fault == "idle since":  # of the day of the export, when they had left
            since = draw.exponential(4, len(y))
            since = since + (part < 2) * y * (40 + 60 * draw.random(len(y)))
            table = np.column_stack([table, since])
        if gaps:
            table[draw.random(table.shape) < gaps] = np.nan
        parts.append(xgb.DMatrix(table, 1 - y if fault == "stays is one" and not part else y))
    trained, validation, test = parts
    booster = xgb.train(
        {"objective": "binary:logistic", "eta": eta, "max_depth": depth, "nthread": 1,
         "seed": seed, "scale_pos_weight": weight, "verbosity": 0,
         **({"eval_metric": metric} if metric else {"disable_default_eval_metric": 1}),
         **(more or {})},
        trained,
        rounds,
        evals=[(trained, "train"), (validation, "validation")],
        obj=own,
        custom_metric=None if metric else area,
        maximize=False if fault == "best is least" else None if metric else True,
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost()],
    )  # fmt: skip
    best = booster.best_iteration + 1 if patience else 0
    found = booster.predict(test, output_margin=True, iteration_range=(0, best))
    return ranking_skill(torch.as_tensor(found), torch.as_tensor(tables[2][1]))


CASES = cases(
    "leaving customers",
    train,
    {
        "plain": {},
        "no weights, deviance": {"weight": 1.0, "metric": "logloss"},
        "own cross-entropy": {"own": focal(True), "weight": 1.0},
        "fast, over soon": {"eta": 0.5, "depth": 2, "patience": 8},
        "gaps": {"gaps": 0.03, "more": {"subsample": 0.7, "colsample_bytree": 0.7}},
        "trees dropped": {
            "patience": 0, "rounds": 80, "eta": 0.3, "depth": 2,
            "more": {"booster": "dart", "rate_drop": 0.05, "skip_drop": 0.5},
        },
    },
    {
        "columns in another order": ("inputs overfit", {"fault": "columns in another order"}),
        "idle since": ("leak trees", {"fault": "idle since"}),
        "stays is one": ("worse overfit inputs no-skill", {"fault": "stays is one"}),
        "own without sigmoid": (
            "probabilities worse not-finite fast no-skill",
            {"own": focal(False), "weight": 1.0},
        ),
        "best is least": (
            "slow trees schedule no-skill",
            {"fault": "best is least", "metric": "", "depth": 2, "eta": 0.02},
        ),
    },
)  # fmt: skip
