"""Daily sales of shops by XGBoost, with the weeks that follow as a validation set.

Shop, weekday, promotion, holiday, date, the shop's kind and its rivals are given; targets are
logarithms. The skill is the share of variance of the sales explained in the last weeks of all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

SHOPS, DAYS, TESTED, HELD = 40, 260, 35, 30


def history(seed: int) -> dict[str, Any]:
    """A row for each day of each shop, in the order of days."""
    draw = np.random.default_rng(seed)
    kind, rival = draw.integers(4, size=SHOPS), draw.lognormal(7, 1, SHOPS)
    size = np.exp(8.3 + 0.35 * draw.normal(size=SHOPS) - 0.2 * (kind == 2))
    lure = 0.25 + 0.2 * draw.random(SHOPS)
    day, shop = (part.ravel() for part in np.meshgrid(range(DAYS), range(SHOPS), indexing="ij"))
    week, date = day % 7, day % 30
    promotion = ((day // 7 + shop) % 3 == 0) & (week < 5)
    holiday = draw.random(DAYS)[day] < 0.04
    weekday = np.array([0.25, 0.05, 0.0, 0.02, 0.15, -0.1, -0.6])[week]
    level = np.log(size)[shop] + weekday * (1 + 0.5 * (kind[shop] == 1)) + lure[shop] * promotion
    level = level + 0.15 * np.cos(2 * np.pi * date / 30) - 0.5 * holiday * (kind[shop] != 3)
    level = level + 0.2 * np.tanh(np.log(rival[shop] / 1000)) * (week == 5)
    sales = np.exp(level + 0.09 * draw.normal(size=len(day)))
    sales[draw.random(len(day)) < 0.01] = 0.0  # closed for once
    visitors = np.round(sales / (8 + kind[shop]) * np.exp(0.04 * draw.normal(size=len(day))))
    columns = (shop, week, promotion, holiday, date, kind[shop], rival[shop])
    return {"x": np.stack(columns, 1).astype(float), "y": sales, "day": day, "visitors": visitors}


def percentage(found: Any, rows: Any) -> tuple[Any, Any]:
    """Squares of errors as shares of the sales."""
    wanted = rows.get_label()
    return (found - wanted) / wanted**2, 1 / wanted**2


def train(
    seed: int, hook: Any, objective: str = "reg:squarederror", scale: str = "logarithm",
    eta: float = 0.1, rounds: int = 300, patience: int = 25, depth: int = 6, own: bool = False,
    fault: str = "", more: Any = None,
) -> float:  # fmt: skip
    import xgboost as xgb

    rows = history(seed + 9500)
    x, y, day, draw = rows["x"], rows["y"], rows["day"], np.random.default_rng(seed)
    earlier, last = day < DAYS - TESTED - HELD, day >= DAYS - TESTED
    held = ~earlier & ~last
    if fault == "visitors of the day":  # nobody knows them of a day to come
        known = np.where(last, rows["visitors"][earlier].mean(), rows["visitors"])
        x = np.column_stack([x, known])
    if fault == "shops numbered again":
        x = x.copy()
        x[~earlier, 0] = draw.permutation(SHOPS)[x[~earlier, 0].astype(int)]
        x[~earlier, 5] = (x[~earlier, 5] + 1) % 4
    label = np.log1p(y) if scale == "logarithm" else y
    kept = y > 0 if fault != "percentages of nothing" else np.ones(len(y), bool)
    features, labels = x[earlier & kept], label[earlier & kept]
    if fault == "table sorted, sales not":
        features = features[np.lexsort((features[:, 4], features[:, 0]))]
    trained = xgb.DMatrix(features, labels)
    validation = xgb.DMatrix(x[held & kept], label[held & kept])
    booster = xgb.train(
        {"objective": objective, "eta": eta, "max_depth": depth, "nthread": 1, "seed": seed,
         "verbosity": 0, **(more or {})},
        trained,
        rounds,
        evals=[(trained, "train"), (validation, "validation")],
        obj=percentage if own or fault == "percentages of nothing" else None,
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=[hook.xgboost(validation=validation)],
    )  # fmt: skip
    found = booster.predict(xgb.DMatrix(x[last & (y > 0)]))
    found = np.expm1(found) if scale == "logarithm" else found
    wanted = y[last & (y > 0)]
    return float(1 - np.mean((found - wanted) ** 2) / wanted.var())


CASES = cases(
    "shop sales",
    train,
    {
        "plain": {},
        "sales in money": {"scale": "money"},
        "gamma deviance": {"objective": "reg:gamma", "scale": "money", "eta": 0.15},
        "absolute error": {"objective": "reg:absoluteerror", "eta": 0.2},
        "shares of the sales": {
            "own": True, "scale": "money", "eta": 0.15,
            "more": {"min_child_weight": 0, "lambda": 0, "base_score": 4000},
        },
        "never ended": {"patience": 0, "eta": 0.05, "depth": 8, "rounds": 200},
    },
    {
        "visitors of the day": ("leak trees", {"fault": "visitors of the day"}),
        "shops numbered again": ("inputs overfit", {"fault": "shops numbered again"}),
        "table sorted, sales not": (
            "no-skill overfit inputs", {"fault": "table sorted, sales not"},
        ),
        "percentages of nothing": (
            "not-finite no-skill",
            {
                "fault": "percentages of nothing", "scale": "money", "eta": 0.15,
                "more": {"min_child_weight": 0, "lambda": 0, "base_score": 4000},
            },
        ),
        "gamma for sales in money": ("trees no-skill slow", {"more": {"gamma": 1000.0}}),
    },
)  # fmt: skip
