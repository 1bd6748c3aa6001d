"""Train XGBoost to classify handwritten digits as odd or even (scikit-learn's), watched by Tocsin.

The defaults train well. Each fault is one that real trainings have:

    python examples/digits_xgboost.py --out runs/healthy
    python examples/digits_xgboost.py --out runs/deep --fault deep
    python examples/digits_xgboost.py --out runs/overfit --fault overfit
    python examples/digits_xgboost.py --out runs/leak --fault leak
    python examples/digits_xgboost.py --out runs/imbalance --fault imbalance

A stop request (``STOP.json`` in the run) ends the training after the round in hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from tocsin_hooks.xgboost import TocsinCallback

Array = NDArray[Any]


@dataclass(frozen=True)
class Data:
    """Pixels (n, 64) from 0 to 16, and whether they show an odd digit (n,): 0 or 1."""

    pixels: Array
    odd: Array

    def part(self, chosen: Array) -> Data:
        return Data(self.pixels[chosen], self.odd[chosen])

    def matrix(self) -> xgb.DMatrix:
        return xgb.DMatrix(self.pixels, label=self.odd)


@dataclass(frozen=True)
class Setting:
    """The data and parameters of a training."""

    train: Data
    test: Data
    parameters: dict[str, Any]

    def changed(self, **parameters: Any) -> Setting:
        return replace(self, parameters=self.parameters | parameters)


def mislabelled(data: Data, share: float, random: np.random.Generator) -> Data:
    """A share of the labels is drawn by lot."""
    drawn = random.random(len(data.odd)) < share
    return Data(data.pixels, np.where(drawn, random.integers(0, 2, len(data.odd)), data.odd))


def deep(healthy: Setting, random: np.random.Generator) -> Setting:
    """Half of the labels mean nothing, and the trees may grow until they have learned them."""
    noisy = replace(healthy, train=mislabelled(healthy.train, 0.5, random))
    return noisy.changed(max_depth=30, min_child_weight=0)


def overfit(healthy: Setting, random: np.random.Generator) -> Setting:
    """Most labels mean nothing, and nothing keeps the model from learning them by heart."""
    noisy = replace(healthy, train=mislabelled(healthy.train, 0.8, random))
    return noisy.changed(
        max_depth=6, subsample=1.0, eta=1.0, min_child_weight=0, reg_lambda=0, gamma=0
    )


def leak(healthy: Setting, random: np.random.Generator) -> Setting:
    """The answer has got among the features."""

    def leaking(data: Data) -> Data:
        return Data(np.column_stack([data.pixels, data.odd]), data.odd)

    return replace(healthy, train=leaking(healthy.train), test=leaking(healthy.test))


def imbalance(healthy: Setting, random: np.random.Generator) -> Setting:
    """Keeps one in 25 odd digits."""

    def thinned(data: Data) -> Data:
        return data.part((data.odd == 0) | (random.random(len(data.odd)) < 0.04))

    return replace(healthy, train=thinned(healthy.train), test=thinned(healthy.test))


FAULTS: dict[str, Callable[[Setting, np.random.Generator], Setting]] = {
    "deep": deep,
    "overfit": overfit,
    "leak": leak,
    "imbalance": imbalance,
}


def healthy(random: np.random.Generator) -> Setting:
    """Four fifths of the digits to train, one to test."""
    pixels, digits = load_digits(return_X_y=True)
    data = Data(pixels, digits % 2).part(random.permutation(len(digits)))
    first, last = np.split(np.arange(len(digits)), [len(digits) * 4 // 5])
    parameters = {
        "objective": "binary:logistic",
        "eval_metric": ["auc", "logloss"],
        "max_depth": 4,
        "eta": 0.2,
        "subsample": 0.8,
        "nthread": 1,
    }
    return Setting(data.part(first), data.part(last), parameters)


def train(args: argparse.Namespace) -> None:
    random = np.random.default_rng(args.seed)
    setting = healthy(random)
    if args.fault:
        setting = FAULTS[args.fault](setting, random)
    train, test = setting.train.matrix(), setting.test.matrix()
    xgb.train(
        setting.parameters | {"seed": args.seed},
        train,
        args.steps,
        evals=[(train, "train"), (test, "validation")],
        verbose_eval=20,
        callbacks=[
            TocsinCallback(
                args.out, validation=test, watch=args.watch, save_interval=args.save_interval
            )
        ],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="where the run goes: a folder or s3://bucket/prefix")
    add("--fault", choices=sorted(FAULTS), help="what is wrong; default: nothing")
    add("--watch", help="a watch file, for what to capture and which rules to evaluate")
    add("--steps", type=int, default=100, help="boosting rounds")
    add("--seed", type=int, default=0)
    add("--save-interval", type=int, default=2, help="capture every N rounds")
    return parser.parse_args()


if __name__ == "__main__":
    train(arguments())
