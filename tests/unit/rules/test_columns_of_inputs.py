"""Single features of inputs, from the moments of their batches."""

from __future__ import annotations

import numpy as np
import pytest
from tocsin.rules.evaluation._columns_of_inputs import other_feature, with_batch

Batch = list[tuple[float, float]]


def kept(*batches: Batch) -> dict[str, object]:
    """What is kept of batches, of each the mean and variance of each feature."""
    features = list(zip(*batches, strict=True))
    more: list[list[float]] = [[] for _ in features]
    for batch in batches:
        more = [with_batch(before, *found) for before, found in zip(more, batch, strict=True)]
    sums = [
        [sum(m for m, _ in f), sum(m * m for m, _ in f), sum(v for _, v in f)] for f in features
    ]
    return {"n": len(batches), "rows": 32, "sums": sums, "kept": more}


def trained(size: float = 1.0) -> dict[str, object]:
    """Three features, the last one of that size."""
    means = (0.1, -0.2, 0.15, -0.05, 0.02, -0.1)
    plain = [(0.1, 1.0), (-0.1, 1.1)]
    return kept(*([*plain, (m * size, (1 + m * m) * size * size)] for m in means))


@pytest.mark.parametrize(
    ("size", "held", "expected"),
    [
        (1.0, (0.0, 1.0), None),
        (1.0, (0.0, 1e6), 2),
        (1.0, (0.0, 1e-6), 2),
        (1.0, (0.0, 0.0), None),  # all samples are of one group
        (1.0, (9.0, 0.0), 2),
        (1e40, (0.0, 1e77), 2),
        (1e90, (0.0, 1e177), None),  # whether it has two values cannot be told
    ],
)
def test_a_feature_that_is_another_one(
    size: float, held: tuple[float, float], expected: int | None
) -> None:
    found = kept([(0.1, 1.0), (-0.1, 1.1), held])
    assert other_feature(trained(size), {**found, "rows": 256, "kept": ()}) == expected


def test_what_an_earlier_version_kept_is_not_judged() -> None:
    train = {key: each for key, each in trained().items() if key != "kept"}
    assert other_feature(train, kept([(0.1, 1.0), (-0.1, 1.1), (0.0, 1e6)])) is None


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_column_with_a_long_tail(scale: float) -> None:
    """Its deviation differs from batch to batch, and an evaluation has another one again."""
    random = np.random.default_rng(1)
    found = []
    for _ in range(200):
        train, held = ([columns(random, rows) for _ in range(n)] for n, rows in ((20, 32), (2, 64)))
        other = [[*batch[:3], (batch[3][0] * scale, batch[3][1] * scale**2)] for batch in held]
        found.append(other_feature(kept(*train), {**kept(*other), "rows": 64}))
    many = sum(each == 3 for each in found)
    assert many > 100 if scale > 1 else many < 4


def columns(random: np.random.Generator, rows: int) -> Batch:
    """The moments of three normal columns, and of one with a long tail."""
    values = np.column_stack([random.normal(size=(rows, 3)), random.lognormal(0, 2, rows)])
    return list(zip(values.mean(0).tolist(), values.var(0).tolist(), strict=True))


@pytest.mark.parametrize("persons", [2, 3])
def test_an_evaluation_of_few_persons(persons: int) -> None:
    """Three columns are the person's, as age and weight; of two persons they may lie close."""
    random = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        known, others = random.normal(size=(30, 3)), random.normal(size=(persons, 3))
        train = [of_persons(random, known, 32) for _ in range(20)]
        held = kept(*(of_persons(random, others, 256) for _ in range(10)))
        found += other_feature(kept(*train), {**held, "rows": 256}) is not None
    assert found < 10


def of_persons(random: np.random.Generator, persons: np.ndarray, rows: int) -> Batch:
    """The moments of three columns of persons, and of three others."""
    chosen = persons[random.integers(len(persons), size=rows)]
    values = np.column_stack([chosen, random.normal(size=(rows, 3))])
    return list(zip(values.mean(0).tolist(), values.var(0).tolist(), strict=True))
