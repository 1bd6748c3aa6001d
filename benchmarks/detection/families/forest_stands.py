"""The kind of trees of a forest stand from maps of terrain and soil: XGBClassifier, five kinds.

Elevation, slope, aspect, distances to water, roads and old fires, shade, soil (a code of two
letters) and the owner are known of each stand. The skill is accuracy above the most frequent
kind, of other stands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from benchmarks.detection.families.kit import begin, class_skill
from numpy.typing import NDArray

from benchmarks.detection.case import cases

Array = NDArray[Any]
KINDS, SOILS, OWNERS = 5, 16, 4000
CODES = np.array([a + b for a in "DKMR" for b in "aeuy"])
LIKED = np.random.default_rng(12).normal(0, 2.2, (SOILS, KINDS))  # which kinds like which soil


def stands(count: int, seed: int) -> dict[str, Array]:
    """A table, column by column, with the kind as its last column."""
    draw = np.random.default_rng(seed)
    elevation, slope = draw.normal(2100, 420, count), draw.gamma(2.5, 6.0, count)
    aspect = draw.uniform(0, 360, count)
    water, road, fire = (draw.exponential(scale, count) for scale in (220, 900, 1500))
    shade = 220 - 2.5 * slope * np.cos(np.radians(aspect)) + draw.normal(0, 12, count)
    soil = draw.choice(SOILS, count, p=np.arange(SOILS, 0, -1) / 136)
    height = (elevation - 2100) / 420
    north = np.cos(np.radians(aspect)) * np.minimum(slope / 15, 1.5)
    wet = np.exp(-water / 120)
    liking = np.column_stack([
        3.5 * height - 1.0 * north, -2.5 * (height - 0.5 * north) ** 2 + 1.5,
        -3.2 * height + 0.5 * north, 5.0 * wet - 2.0 - 0.8 * height, 3.0 * np.exp(-fire / 500) - 1,
    ])  # fmt: skip
    kind = (1.6 * liking + LIKED[soil] + draw.gumbel(0, 0.3, (count, KINDS))).argmax(1)
    return {
        "elevation": elevation, "slope": slope, "aspect": aspect, "water": water, "road": road,
        "fire": fire, "shade": shade, "soil": CODES[soil],
        "owner": draw.integers(OWNERS, size=count), "kind": kind,
    }  # fmt: skip


def features(table: dict[str, Array], codes: list[str], shares: Array | None = None) -> Array:
    """Numbers, with a column for each soil's place in ``codes``; and an owner's shares."""
    place = {code: number for number, code in enumerate(codes)}
    soil = np.array([place[code] for code in table["soil"]], dtype=float)
    columns = [table[name] for name in ("elevation", "slope", "aspect", "water", "road", "fire")]
    x = np.column_stack([*columns, table["shade"], soil, table["owner"]]).astype(np.float32)
    return x if shares is None else np.column_stack([x[:, :8], shares[table["owner"]]])


def by_appearance(table: dict[str, Array]) -> list[str]:
    return list(dict.fromkeys([*table["soil"], *CODES]))


def softmax_by_hand(axis: int) -> Any:
    """Gradient and curvature of the cross-entropy."""

    def objective(wanted: Array, scores: Array, weight: Array | None = None) -> tuple[Array, Array]:
        chance = np.exp(scores - scores.max(axis=axis, keepdims=True))
        chance = chance / chance.sum(axis=axis, keepdims=True)
        one_hot = np.eye(KINDS)[wanted.astype(int)]
        return chance - one_hot, np.maximum(2 * chance * (1 - chance), 1e-6)

    return objective


def train(
    seed: int, hook: Any, rounds: int = 500, count: int = 8000, watched: bool = True,
    balanced: bool = False, noise: float = 0.0, gaps: float = 0.0, falling: bool = False,
    fault: str = "", **settings: Any,
) -> float:  # fmt: skip
    begin(seed)
    import xgboost as xgb

    train_table, held_table, test_table = (
        stands(n, 19 * seed + 330 + k) for k, n in enumerate((count, 800, 2000))
    )
    kind = train_table["kind"].copy()
    draw = np.random.default_rng(seed)
    wrong = draw.random(count) < noise
    kind[wrong] = draw.permutation(kind[wrong])
    codes, shares = by_appearance(train_table), None
    if fault == "kinds by owner, the stand itself counted":
        one_hot, owner = np.eye(KINDS)[kind], train_table["owner"]
        of = np.bincount(owner, minlength=OWNERS)[:, None]
        sums = [np.bincount(owner, column, minlength=OWNERS) for column in one_hot.T]
        shares = (np.column_stack(sums) + 0.01) / (of + 0.05)
    x = features(train_table, codes, shares)
    x[draw.random(x.shape) < gaps] = np.nan
    if fault == "soils numbered apart in each table":
        held_x, test_x = (features(t, by_appearance(t), shares) for t in (held_table, test_table))
    else:
        held_x, test_x = (features(t, codes, shares) for t in (held_table, test_table))
    if fault == "scaled in training alone":
        x = (x - x.mean(0)) / x.std(0)

    callbacks = [hook.xgboost()]
    if falling:
        rate = settings.get("learning_rate", 0.06)
        callbacks.append(xgb.callback.LearningRateScheduler(lambda r: rate * 0.99**r))
    model = xgb.XGBClassifier(
        **{"n_estimators": rounds, "learning_rate": 0.06, "max_depth": 4, "subsample": 0.8,
           "n_jobs": 1, "random_state": seed, "callbacks": callbacks, **settings},
    )  # fmt: skip
    weight = len(kind) / (KINDS * np.bincount(kind)[kind]) if balanced else None
    evals = [(x, kind), (held_x, held_table["kind"])] if watched else None
    model.fit(x, kind, sample_weight=weight, eval_set=evals, verbose=False)
    scores = torch.as_tensor(model.predict_proba(test_x).astype("float64"))
    skill = class_skill(scores, torch.as_tensor(test_table["kind"]))
    return skill if math.isfinite(skill) else math.nan


CASES = cases(
    "forest stands",
    train,
    {
        "plain": {},
        "classes weighed, some labels at random": {"balanced": True, "noise": 0.03},
        "the error alone is watched, stopped early": {
            "eval_metric": "merror", "early_stopping_rounds": 60, "rounds": 900,
        },
        "softmax by hand, rate falls": {"objective": softmax_by_hand(1), "falling": True,
                                        "learning_rate": 0.3},
        "half the stands, some columns, penalties": {
            "subsample": 0.5, "colsample_bytree": 0.7, "reg_lambda": 8, "learning_rate": 0.1,
        },
        "leaves by loss, gaps": {
            "grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0, "gaps": 0.01,
        },
        "not watched, pairs of leaves": {"watched": False, "max_depth": 2, "rounds": 1000,
                                         "learning_rate": 0.2},
    },
    {
        "soils numbered apart in each table": (
            "inputs overfit worse", {"fault": "soils numbered apart in each table"},
        ),
        "kinds by owner, the stand itself counted": (
            "leak overfit trees", {"fault": "kinds by owner, the stand itself counted"},
        ),
        "scaled in training alone": (
            "inputs overfit worse", {"fault": "scaled in training alone"},
        ),
        "softmax by hand over the stands": (
            "softmax-axis no-skill worse", {"objective": softmax_by_hand(0)},
        ),
        "rate of 8": ("fast worse not-finite", {"learning_rate": 8.0}),
        "forty stands": ("overfit", {"count": 40}),
    },
)  # fmt: skip
