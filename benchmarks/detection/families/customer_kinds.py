"""Kinds of a shop's customers from a year of their visits: XGBClassifier with weights of rows.

Five kinds of unequal frequency, from families that stock up to those who come for offers alone.
The skill is the mean recall of kinds in a third set, above chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import balanced_skill

from benchmarks.detection.case import cases

KINDS = 5
SHARE = np.array([0.46, 0.24, 0.16, 0.09, 0.05])
OFTEN = np.array([3.0, 9.0, 5.0, 14.0, 2.0])  # visits a month
SPENT = np.array([28.0, 75.0, 22.0, 12.0, 140.0])
OFFERS = np.array([0.25, 0.3, 0.7, 0.2, 0.05])
ONLINE = np.array([0.2, 0.1, 0.4, 0.05, 0.75])


def customers(count: int, seed: int) -> tuple[Any, Any]:
    """Columns (N, 10), and kinds."""
    draw = np.random.default_rng(seed)
    kind = draw.choice(KINDS, count, p=SHARE)
    kind[:KINDS] = np.arange(KINDS)
    visits = draw.poisson(12 * OFTEN[kind] * draw.lognormal(0, 0.3, count)) + 1
    basket = SPENT[kind] * draw.lognormal(0, 0.35, count)
    offers, online = (draw.binomial(visits, share[kind]) / visits for share in (OFFERS, ONLINE))
    last_seen = draw.exponential(365 / visits)
    age = draw.normal(np.array([48, 41, 60, 33, 37])[kind], 12)
    hour = draw.normal(np.array([15, 17, 10, 12, 20])[kind], 2.5)
    returned = draw.binomial(visits, 0.03 + 0.1 * online) / visits
    columns = (visits, basket, visits * basket, offers, online, last_seen, age, hour, returned)
    return np.stack([*columns, draw.normal(size=count)], 1), kind


def weights_of(kind: Any, how: str) -> Any:
    counted = np.bincount(kind, minlength=KINDS)
    if how == "balanced":
        return len(kind) / KINDS / counted[kind]
    if how == "times 1000":
        return 1000 * len(kind) / KINDS / counted[kind]
    if how == "upside down":
        return (counted[kind] / counted.max()) ** 3
    return None


def train(
    seed: int, hook: Any, rounds: int = 200, rate: float = 0.1, depth: int = 3, patience: int = 0,
    count: int = 2500, weights: str = "balanced", noise: float = 0.0, more: Any = None,
    fault: str = "",
) -> float:  # fmt: skip
    import xgboost as xgb

    draw = np.random.default_rng(seed)
    x, kind = customers(count, seed + 8300)
    held, held_kind = customers(500, seed + 8301)
    test, test_kind = customers(1500, seed + 8302)
    if noise:
        kind = np.where(draw.random(count) < noise, draw.permutation(kind), kind)
    if fault == "joined a row too low":
        kind = np.roll(kind, 1)
    if fault == "number of the mailing as a column":  # letters go out kind by kind
        x, held = (
            np.column_stack([of, of_kind * 1000 + draw.integers(1000, size=len(of))])
            for of, of_kind in ((x, kind), (held, held_kind))
        )
        test = np.column_stack([test, draw.integers(5000, size=len(test))])
    if fault == "scaled in training alone":
        x = (x - x.mean(0)) / x.std(0)
    model = xgb.XGBClassifier(
        n_estimators=rounds, learning_rate=rate, max_depth=depth, objective="multi:softprob",
        eval_metric="mlogloss", early_stopping_rounds=patience or None, n_jobs=1,
        random_state=seed, callbacks=[hook.xgboost()], **(more or {}),
    )  # fmt: skip
    if fault == "coded by their names":
        kind = np.array([3, 0, 4, 1, 2])[kind]  # the validation set has codes of its own
    model.fit(
        x, kind, sample_weight=weights_of(kind, weights),
        eval_set=[(x, kind), (held, held_kind)], verbose=False,
    )  # fmt: skip
    return balanced_skill(torch.as_tensor(model.predict_proba(test)), torch.as_tensor(test_kind))


CASES = cases(
    "customer kinds",
    train,
    {
        "plain": {},
        "weights times 1000": {"weights": "times 1000"},
        "ended early": {"patience": 10, "rate": 0.3, "rounds": 300},
        "wrong kinds": {"noise": 0.06, "rate": 0.05},
        "random parts of rows and columns": {"more": {"subsample": 0.5, "colsample_bytree": 0.5}},
        "stumps": {"depth": 1, "rate": 0.4},
    },
    {
        "joined a row too low": ("no-skill overfit", {"fault": "joined a row too low"}),
        "number of the mailing as a column": (
            "leak",
            {"fault": "number of the mailing as a column"},
        ),
        "scaled in training alone": ("inputs overfit", {"fault": "scaled in training alone"}),
        "coded by their names": ("inputs overfit worse", {"fault": "coded by their names"}),
        "weights upside down": ("imbalance ignored", {"weights": "upside down"}),
    },
)
