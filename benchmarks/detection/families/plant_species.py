"""Species of plants from a table of their leaves, by boosted trees of a class each (XGBoost).

Nine species of three genera differ in shape, edge, colour and veins, and leaves of all sizes are
measured. The skill is the mean recall of species in a third set, above chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.detection.case import cases

SPECIES = 9
LENGTH, PERIMETER, HUE, HABITAT, COLUMNS = 0, 3, 7, 10, 12
OFTEN = np.array([0.2, 0.18, 0.15, 0.12, 0.1, 0.08, 0.07, 0.06, 0.04])
BLINDS = np.random.default_rng(77).permutation(SPECIES)


def leaves(count: int, seed: int, plants: int = 0) -> tuple[Any, Any]:
    """Measures (N, 12), and species (N,); ``plants`` is from how many the leaves were picked."""
    kinds, draw = np.random.default_rng(5500), np.random.default_rng(seed)
    genus = kinds.normal(size=(3, 8)).repeat(3, 0)
    typical = genus + 0.75 * kinds.normal(size=(SPECIES, 8))
    sources = plants or count
    grown = draw.choice(SPECIES, sources, p=OFTEN)
    grown[:SPECIES] = np.arange(SPECIES)
    trait = typical[grown] + 0.45 * draw.normal(size=(sources, 8))
    of = np.arange(count) if not plants else draw.integers(plants, size=count)
    species, shape = grown[of], trait[of] + 0.12 * draw.normal(size=(count, 8))
    size, month = draw.lognormal(3.9, 0.35, count), draw.integers(4, 11, size=count)
    length = size * np.exp(0.15 * shape[:, 0])
    width = length * np.exp(-0.6 + 0.22 * shape[:, 1])
    area = length * width * (0.7 + 0.06 * np.tanh(shape[:, 2]))
    perimeter = 2 * (length + width) * (1 + 0.25 * np.exp(0.6 * shape[:, 2]))
    stalk = length * np.exp(-1.2 + 0.3 * shape[:, 3])
    thick = 0.25 * np.exp(0.2 * shape[:, 4]) * (size / 50) ** 0.3
    teeth = draw.poisson(perimeter / 12 * np.exp(0.5 * shape[:, 5]))
    hue = 110 + 9 * shape[:, 6] - 4.0 * np.maximum(month - 8, 0) ** 1.5
    veins = 45 + 8 * shape[:, 7] + 3 * shape[:, 0]
    hairs = draw.poisson(np.exp(1 + 0.7 * shape[:, 4] - 0.4 * shape[:, 7]))
    habitat = (species // 3 + (draw.random(count) < 0.5) * draw.integers(3, size=count)) % 3
    columns = (length, width, area, perimeter, stalk, thick, teeth, hue, veins, hairs)
    return np.stack([*columns, habitat, month], 1).astype(float), species


def own_objective(kind: str) -> Any:
    """Gradients and curvatures (N, 9) of scores, as scripts write them."""

    def gradient(found: Any, rows: Any) -> tuple[Any, Any]:
        found = found.reshape(-1, SPECIES)
        wanted = np.eye(SPECIES)[rows.get_label().astype(int)]
        if kind == "smooth":
            wanted = 0.9 * wanted + 0.1 / SPECIES
        if kind in ("one against the rest", "rest against one"):
            share = 1 / (1 + np.exp(-found))
        else:
            axis = 0 if kind == "over leaves" else 1
            share = np.exp(found - found.max(axis, keepdims=True))
            share = share / share.sum(axis, keepdims=True)
        first, second = share - wanted, np.maximum(2 * share * (1 - share), 1e-6)
        if kind == "turned":
            first = -first
        if kind == "mean":
            first, second = first / len(found), second / len(found)
        if kind == "species first":
            first, second = (part.T.reshape(found.shape) for part in (first, second))
        if kind == "rest against one":
            first = share - (1 - wanted)
        return first, second

    return gradient


def prepared(x: Any, y: Any, part: str, fault: str, option: str, seed: int) -> tuple[Any, Any]:
    """The table as the script makes it of a part: train, validation or test."""
    draw = np.random.default_rng(seed)
    x, y, late = x.copy(), y.copy(), part != "train"
    if option == "missing":
        x[draw.random(x.shape) < 0.015] = np.nan
    if option == "useless columns":
        x = np.column_stack([x, draw.normal(size=(len(x), 15))])
    if option == "habitat in columns":
        x = np.column_stack([np.delete(x, HABITAT, 1), np.eye(3)[x[:, HABITAT].astype(int)]])
    if option == "ratios":
        x = np.column_stack([x, x[:, 1:5] / x[:, :1]])
    if option == "tiny units":
        x = x * 1e4
    if option == "ranks":
        x = np.log1p(np.maximum(x, 0))
    if fault == "sheet's number":
        number = np.argsort(np.argsort(y + 0.5 * draw.random(len(y)))) / len(y)
        x = np.column_stack([x, number if part != "test" else draw.random(len(y))])
    if fault == "centimetres" and late:
        x[:, :6] = x[:, :6] / 10
    if fault == "by alphabet" and late:
        x = x[:, np.argsort(["l", "w", "a", "pe", "st", "th", "te", "hu", "v", "ha", "h", "m"])]
    if fault == "one byte" and late:
        x = np.floor(x).astype(np.int64).astype(np.int8).astype(float)
    if fault == "clipped":
        x = x.clip(0, 1)
    if fault == "scaled in training" and not late:
        x = (x - x.mean(0)) / x.std(0)
    if fault == "gaps of -1" and late:
        x[draw.random(x.shape) < 0.4] = -1
    if fault == "names encoded again" and part == "train":
        y = BLINDS[y]
    if part == "train":
        y = np.roll(y, 1) if fault == "names a row lower" else y
        if option == "wrong names":
            y = np.where(draw.random(len(y)) < 0.05, draw.permutation(y), y)
        if fault == "one name for most":
            y = np.where(draw.random(len(y)) < 0.75, 0, y)
    return x, y


def weights_of(kind: str, y: Any) -> Any:
    share = np.bincount(y, minlength=SPECIES)[y] / len(y)
    if kind == "rare count more":
        return (1 / share) ** 0.5 / 3
    if kind == "as integers":
        return (share * 7).astype(int)
    if kind == "frequent count more":
        return 1e-6 + (y < 2)
    return None


def train(
    seed: int, hook: Any, eta: float = 0.1, rounds: int = 250, patience: int = 20, depth: int = 4,
    count: int = 2500, objective: str = "multi:softprob", labels: str = "names", option: str = "",
    weight: str = "", own: str = "", falling: float = 1.0, start: float = 0.0, fault: str = "",
    plants: int = 0, more: Any = None,
) -> float:  # fmt: skip
    import xgboost as xgb

    raw, raw_y = leaves(count + 500, seed + 5500, plants)
    if fault == "table by species":
        order = np.argsort(raw_y, kind="stable")
        count = int(0.6 * len(order))
        raw, raw_y = raw[order], raw_y[order]
    test, test_y = leaves(1500, seed + 5501)
    x, y = prepared(raw[:count], raw_y[:count], "train", fault, option, seed)
    held, held_y = prepared(raw[count:], raw_y[count:], "validation", fault, option, seed + 1)
    test, _ = prepared(test, test_y, "test", fault, option, seed + 2)
    trained, validation, last = (
        xgb.DMatrix(part, np.eye(SPECIES)[name] if labels == "columns" else name)
        for part, name in ((x, y), (held, held_y), (test, test_y))
    )
    if weight:
        trained.set_weight(weights_of(weight, y))
    if start:
        for part in (trained, validation, last):
            part.set_base_margin(np.tile(start * np.eye(SPECIES)[0], (part.num_row(), 1)))
    callbacks: list[Any] = [hook.xgboost(validation=validation)]
    if falling != 1:
        callbacks.append(xgb.callback.LearningRateScheduler(lambda n: eta * falling**n))
    several = {} if labels == "columns" else {"num_class": SPECIES}
    booster = xgb.train(
        {"objective": objective, "eta": eta, "max_depth": depth, "nthread": 1, "seed": seed,
         "verbosity": 0, **several, **(more or {})},
        trained,
        rounds,
        evals=[(trained, "train"), (validation, "validation")],
        obj=own_objective(own) if own else None,
        early_stopping_rounds=patience or None,
        verbose_eval=False,
        callbacks=callbacks,
    )  # fmt: skip
    found = booster.predict(last, output_margin=True)
    if not np.isfinite(found).all():
        return float("nan")
    named = found.reshape(len(test_y), SPECIES).argmax(1)
    recall = np.mean([(named[test_y == kind] == kind).mean() for kind in range(SPECIES)])
    return float((recall - 1 / SPECIES) / (1 - 1 / SPECIES))


CASES = cases(
    "plant species",
    train,
    {
        "plain": {},
        "slow": {"eta": 0.03, "rounds": 350},
        "fast": {"eta": 0.4, "depth": 3},
        "not ended": {"patience": 0, "rounds": 200},
        "names as output": {"objective": "multi:softmax", "more": {"eval_metric": "merror"}},
        "columns of names": {"objective": "binary:logistic", "labels": "columns"},
        "own one against the rest": {"own": "one against the rest"},
        "own smooth labels": {"own": "smooth", "rounds": 150},
        "vectors as leaves": {"more": {"multi_strategy": "multi_output_tree"}, "depth": 6},
        "by leaves": {"more": {"grow_policy": "lossguide", "max_leaves": 12}, "depth": 0},
        "stumps": {"depth": 1, "eta": 0.4, "rounds": 300},
        "exact": {"more": {"tree_method": "exact"}},
        "parts of rows and columns": {"more": {"subsample": 0.5, "colsample_bynode": 0.5}},
        "three trees a round": {"more": {"num_parallel_tree": 3, "subsample": 0.7}, "eta": 0.2},
        "some trees dropped": {
            "more": {"booster": "dart", "rate_drop": 0.02, "skip_drop": 0.5},
            "eta": 0.3,
            "rounds": 90,
        },
        "strong penalty": {"more": {"lambda": 20.0, "alpha": 1.0}},
        "rare species count more": {"weight": "rare count more"},
        "wrong names": {"option": "wrong names"},
        "missing values": {"option": "missing"},
        "useless columns": {"option": "useless columns"},
        "habitat in columns": {"option": "habitat in columns"},
        "ratios of lengths": {"option": "ratios"},
        "tiny units": {"option": "tiny units"},
        "logarithms": {"option": "ranks"},
        "falling rate": {"eta": 0.3, "falling": 0.97, "rounds": 150},
        "few bins": {"more": {"max_bin": 24}},
    },
    {
        "names a row lower": ("no-skill overfit", {"fault": "names a row lower"}),
        "names encoded again": (
            "overfit inputs worse no-skill",
            {"fault": "names encoded again", "patience": 0, "rounds": 150},
        ),
        "sheet's number": ("leak trees", {"fault": "sheet's number"}),
        "leaves of twenty plants": ("leak overfit", {"plants": 20}),
        "centimetres in evaluation": ("inputs overfit", {"fault": "centimetres"}),
        "columns by alphabet in evaluation": ("inputs overfit", {"fault": "by alphabet"}),
        "one byte in evaluation": ("inputs overfit", {"fault": "one byte"}),
        "scaled in training alone": ("inputs overfit", {"fault": "scaled in training"}),
        "gaps of -1 in evaluation": ("inputs overfit", {"fault": "gaps of -1"}),
        "clipped as pictures are": ("inputs no-skill", {"fault": "clipped"}),
        "table by species": (
            "order overfit inputs imbalance worse",
            {"fault": "table by species", "patience": 0, "rounds": 150},
        ),
        "one name for most": ("imbalance collapse no-skill", {"fault": "one name for most"}),
        "weights as integers": ("ignored imbalance", {"weight": "as integers"}),
        "frequent species count alone": ("imbalance ignored", {"weight": "frequent count more"}),
        "softmax over leaves": (
            "softmax-axis no-skill worse",
            {"own": "over leaves", "patience": 0, "rounds": 120},
        ),
        "gradient turned": (
            "worse fast not-finite no-skill",
            {"own": "turned", "patience": 0, "rounds": 120},
        ),
        "gradients of species first": (
            "broadcast no-skill",
            {"own": "species first", "patience": 0, "rounds": 120},
        ),
        "labels of the rest": (
            "worse no-skill",
            {"own": "rest against one", "patience": 0, "rounds": 120},
        ),
        "gradient of a mean": (
            "trees no-skill slow",
            {"own": "mean", "patience": 0, "rounds": 150},
        ),
        "start of a sure answer": (
            "saturated trees no-skill slow",
            {"start": 60.0, "patience": 0, "rounds": 150},
        ),
        "every tree dropped": (
            "trees no-skill slow",
            {"more": {"booster": "dart", "rate_drop": 1.0}, "patience": 0, "rounds": 60},
        ),
        "children of 5000": (
            "trees no-skill",
            {"more": {"min_child_weight": 5000}, "patience": 0, "rounds": 150},
        ),
        "rate x 200": ("fast worse not-finite", {"eta": 20.0, "patience": 0, "rounds": 80}),
        "eighteen leaves": (
            "overfit trees",
            {"count": 18, "patience": 0, "eta": 0.3, "rounds": 200},
        ),
    },
)
