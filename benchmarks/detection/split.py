"""Two halves: thresholds are chosen on one, and what they are worth is told on the other.

They share no data set, no seed and no fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.detection.faults import FAULTS, Fault, Half
from benchmarks.detection.healthy import ALL_TABLES, IMAGES, NUMBERS, RECIPES, TEXTS, fitting, plain
from benchmarks.detection.training.setup import Setup

HALVES: tuple[Half, ...] = ("tuning", "held out")
FAMILIES: dict[Half, dict[str, tuple[str, ...]]] = {
    "tuning": {
        "digits": (*ALL_TABLES, *IMAGES, "xgboost", "gan"),
        "iris": (*ALL_TABLES, "xgboost", "gan"),
        "diabetes": (*NUMBERS, "xgboost"),
        "iris width": (*NUMBERS, "xgboost"),
        "license": TEXTS,
    },
    "held out": {
        "patches": (*ALL_TABLES, *IMAGES, "xgboost"),
        "wine": (*ALL_TABLES, "xgboost", "gan"),
        "cancer": (*ALL_TABLES, "xgboost", "gan"),
        "wine proline": (*NUMBERS, "xgboost"),
        "cancer area": NUMBERS,
        "descriptions": TEXTS,
    },
}
FIRST_SEED: dict[Half, int] = {"tuning": 0, "held out": 1000}
SEEDS = 3
RUNS_PER_RECIPE = 5
RUNS_PER_FAULT = 6


def sound(half: Half) -> tuple[Setup, ...]:
    """The healthy runs of a half: every family plainly with some seeds, and every recipe."""
    usual = plain_setups(half)
    special = (
        replace(recipe(setup), seed=setup.seed + SEEDS)
        for recipe in RECIPES
        for setup in _spread(recipe.name, tuple(fitting(recipe, usual)), RUNS_PER_RECIPE)
    )
    return (*usual, *special)


def faulty(half: Half, fault: Fault) -> tuple[Setup, ...]:
    """The runs with a fault: plain ones of the half, changed."""
    fitting = tuple(setup for setup in plain_setups(half) if fault.fits(setup))
    return tuple(fault(setup) for setup in _spread(fault.name, fitting, RUNS_PER_FAULT))


def faults_of(half: Half) -> tuple[Fault, ...]:
    return tuple(fault for fault in FAULTS.values() if fault.half == half)


def setups(half: Half) -> tuple[Setup, ...]:
    """All runs of a half, the healthy ones first."""
    return (*sound(half), *(s for fault in faults_of(half) for s in faulty(half, fault)))


def chosen(half: Half, only: str | None = None) -> tuple[Setup, ...]:
    """The runs of a half: all, the ``healthy`` ones, or those with one fault, which come with the
    plain healthy ones that they are compared with. Raises KeyError on a fault that is not of it.
    """
    if only is None:
        return setups(half)
    if only == "healthy":
        return sound(half)
    faults = {fault.name: fault for fault in faults_of(half)}
    return (*plain_setups(half), *faulty(half, faults[only]))


def twin(setup: Setup) -> Setup:
    """The same training without its fault."""
    return plain(setup.family, setup.data, setup.seed)


def plain_setups(half: Half) -> tuple[Setup, ...]:
    seeds = range(FIRST_SEED[half], FIRST_SEED[half] + SEEDS)
    return tuple(
        plain(family, data, seed)
        for seed in seeds
        for data, families in FAMILIES[half].items()
        for family in families
    )


def _spread(salt: str, choice: tuple[Setup, ...], count: int) -> Iterator[Setup]:
    """``count`` of the choice: of as many families and data sets as can be."""
    left = list(choice)
    taken: list[Setup] = []
    while left and len(taken) < count:
        left.sort(key=lambda setup: _seen(setup, taken, salt))
        taken.append(left.pop(0))
    yield from taken


def _seen(setup: Setup, taken: list[Setup], salt: str) -> tuple[int, int, str]:
    """How much of a set-up was taken before, and an order that is the same for ever."""
    families = sum(other.family == setup.family for other in taken)
    data = sum(other.data == setup.data for other in taken)
    pairs = sum((other.family, other.data) == (setup.family, setup.data) for other in taken)
    digest = hashlib.sha256(f"{salt}/{setup.name}".encode()).hexdigest()
    return 2 * pairs + families + data, families, digest
