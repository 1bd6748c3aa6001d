"""Claims of contracts by XGBoost: counts with an exposure, ended when it gets no better."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

SIZE, GARAGES = 8, 120


def contracts(count: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Columns, the garage of each, the exposure in years, and the number of claims."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(count, SIZE))
    garage = draw.integers(GARAGES, size=count)
    years = draw.uniform(0.05, 3.0, count)
    risky = 0.3 * np.random.default_rng(7).normal(size=GARAGES)[garage]
    rate = np.exp(0.7 * x[:, 0] + 0.6 * np.sin(2 * x[:, 1]) + 0.4 * x[:, 2] * x[:, 3] + risky)
    return x, garage, years, draw.poisson(1.5 * years * np.minimum(rate, 12)).astype(float)


def deviance(claims: Any, found: Any) -> float:
    found = np.maximum(found, 1e-9)
    return float((found - claims + claims * np.log(np.maximum(claims, 1e-9) / found)).mean())


def by_garage(garage: Any, claims: Any, years: Any) -> Any:
    """The claims in a year of each garage, towards the mean of all where there are few."""
    sums = np.bincount(garage, claims, GARAGES)
    time = np.bincount(garage, years, GARAGES)
    return (sums + 20 * claims.sum() / years.sum()) / (time + 20)


def train(
    seed: int, hook: Any, objective: str = "count:poisson", rounds: int = 300, eta: float = 0.1,
    depth: int = 4, patience: int = 15, sampled: float = 1.0, penalty: float = 1.0,
    many_zeros: float = 0.0, weighted: bool = False, count: int = 3000, fault: str = "",
) -> float:  # fmt: skip
    import xgboost as xgb

    x, garage, years, claims = contracts(count, seed + 600)
    held_x, held_garage, held_years, held_claims = contracts(1500, seed + 601)
    draw = np.random.default_rng(seed)
    if many_zeros:
        x = np.where(draw.random(x.shape) < many_zeros, np.nan, x)
    past = by_garage(garage, claims, years)
    column, held_column = past[garage], past[held_garage]
    if fault == "claims of the contract before":
        claims = np.roll(claims, 1)
    if fault == "own claims in the garage's":  # the mean of a group of one is its label
        column = np.log1p(claims / years)
        held_column = np.log1p(past[held_garage])
    if fault == "rows sorted by garage, claims not":
        order = np.argsort(garage, kind="stable")
        x, column, years = x[order], column[order], years[order]
    x, held_x = np.column_stack([x, column]), np.column_stack([held_x, held_column])
    if fault == "no columns":
        x, held_x = np.zeros_like(x), np.zeros_like(held_x)
    if fault == "other units in evaluation":
        held_x = held_x * 100
    if fault == "columns in other order":
        held_x = held_x[:, ::-1]
    margin, held_margin = np.log(years), np.log(held_years)
    if fault == "years without logarithm":
        margin, held_margin = years * 3, held_years * 3
    if fault == "evaluation in days":
        held_margin = np.log(held_years * 365)
    if objective == "reg:squarederror":
        margin, held_margin = None, None
        x, held_x = np.column_stack([x, years]), np.column_stack([held_x, held_years])
    weights = 0.5 + draw.random(count) if weighted else None
    known = xgb.DMatrix(x, claims, base_margin=margin, weight=weights)
    held = xgb.DMatrix(held_x, held_claims, base_margin=held_margin)
    parameters = {
        "objective": objective, "eta": eta, "max_depth": depth, "subsample": sampled,
        "lambda": penalty, "nthread": 1, "seed": seed, "verbosity": 0,
        **({"tweedie_variance_power": 1.2} if "tweedie" in objective else {}),
        **({"max_delta_step": 5.0} if eta > 1 else {}),
    }  # fmt: skip
    booster = xgb.train(
        parameters,
        known,
        rounds,
        evals=[(known, "train"), (held, "validation")],
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost(validation=held)],
    )
    best = (0, booster.best_iteration + 1) if patience else (0, 0)
    found = booster.predict(held, iteration_range=best)
    constant = held_years * claims.sum() / years.sum()
    return 1 - deviance(held_claims, found) / deviance(held_claims, constant)


CASES = cases(
    "exposure",
    train,
    {
        "plain": {},
        "tweedie": {"objective": "reg:tweedie"},
        "half of the rows": {"sampled": 0.5},
        "slow": {"eta": 0.05, "rounds": 500},
        "not ended": {"patience": 0, "rounds": 130},
        "contracts weighted": {"weighted": True},
        "stumps of three": {"depth": 3, "eta": 0.2},
    },
    {
        "claims of the contract before": (
            "no-skill overfit",
            {"fault": "claims of the contract before"},
        ),
        "sorted by garage, claims not": (
            "no-skill overfit",
            {"fault": "rows sorted by garage, claims not"},
        ),
        "own claims in the garage's": (
            "leak trees overfit",
            {"fault": "own claims in the garage's", "patience": 0, "rounds": 100},
        ),
        "columns all zero": ("inputs trees no-skill", {"fault": "no columns"}),
        "other units in evaluation": ("inputs overfit", {"fault": "other units in evaluation"}),
        "columns in other order": ("inputs overfit", {"fault": "columns in other order"}),
        "years without logarithm": ("inputs worse fast", {"fault": "years without logarithm"}),
        "evaluation in days": (
            "inputs overfit",
            {"fault": "evaluation in days", "patience": 0, "rounds": 80},
        ),
        "deep trees of few": (
            "overfit trees worse",
            {
                "depth": 14, "eta": 0.8, "penalty": 0.0, "count": 300,
                "patience": 0, "rounds": 100,
            },
        ),
        "rate / 100": ("slow no-skill", {"eta": 1e-3, "rounds": 60, "patience": 0}),
        "rate x 30": ("fast worse overfit", {"eta": 3.0, "rounds": 60, "patience": 0}),
    },
    seeds=(2, 2),
)  # fmt: skip
