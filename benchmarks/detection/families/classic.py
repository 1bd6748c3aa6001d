"""Models that everybody trains, in numpy, PyTorch and XGBoost, on data sets that ship in packages.

All that rules read is saved as values by scripts, as with smdebug. A family is a kind of model; it
is trained plainly on each data set, in ways that look like trouble, and with faults.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.detection.case import Case
from benchmarks.detection.training import train
from benchmarks.detection.training.faults import catalogue
from benchmarks.detection.training.healthy import (
    ALL_TABLES,
    IMAGES,
    NUMBERS,
    RECIPES,
    TEXTS,
    fitting,
    plain,
)
from benchmarks.detection.training.setup import Setup

FAMILIES_OF: dict[str, tuple[str, ...]] = {
    "digits": (*ALL_TABLES, *IMAGES, "xgboost", "gan"),
    "iris": (*ALL_TABLES, "xgboost"),
    "diabetes": (*NUMBERS, "xgboost"),
    "license": TEXTS,
    "wine": (*ALL_TABLES, "xgboost", "gan"),
    "patches": IMAGES,
    "cancer": (*ALL_TABLES, "xgboost"),
    "wine proline": NUMBERS,
}
RUNS_OF_A_CHANGE = 3


@dataclass(frozen=True)
class TrainedSetup:
    """Trains a set-up, whose files lie where the hook's are to lie."""

    setup: Setup

    def __call__(self, seed: int, hook: Any) -> float:
        metric = train(replace(self.setup, seed=seed), hook.folder).metric
        return math.nan if metric is None else metric


def _cases() -> tuple[Case, ...]:
    usual = [plain(family, data, 0) for data, them in FAMILIES_OF.items() for family in them]
    found = [_case(setup, "plain") for setup in usual]
    for recipe in RECIPES:
        fit = tuple(fitting(recipe, tuple(usual)))
        found += [_case(recipe(setup), recipe.name) for setup in _spread(recipe.name, fit)]
    for fault in catalogue():
        fit = tuple(setup for setup in usual if fault.fits(setup))
        causes = frozenset(fault.causes.split())
        found += [_case(fault(setup), fault.name, causes) for setup in _spread(fault.name, fit)]
    return tuple(found)


def _case(setup: Setup, name: str, causes: frozenset[str] = frozenset()) -> Case:
    return Case(
        setup.family,
        f"{setup.data} {name}",
        TrainedSetup(setup),
        causes,
        reference=f"{setup.data} plain",
        seeds=1,
    )


def _digest(salt: str, setup: Setup) -> str:
    return hashlib.sha256(f"{salt}/{setup.name}".encode()).hexdigest()


def _spread(salt: str, choice: tuple[Setup, ...]) -> list[Setup]:
    """Some of the choice, of as many families as can be; the same ones each time."""
    order = partial(_digest, salt)
    seen: dict[str, int] = {}
    ranked = []
    for setup in sorted(choice, key=order):
        seen[setup.family] = seen.get(setup.family, 0) + 1
        ranked.append((seen[setup.family], order(setup), setup))
    return [setup for *_, setup in sorted(ranked, key=lambda one: one[:2])][:RUNS_OF_A_CHANGE]


CASES = _cases()
