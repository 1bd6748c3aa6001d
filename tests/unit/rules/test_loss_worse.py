from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import COMPETING, Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules._sketch import sketched
from tocsin.rules.loss.loss_worse import LossWorse

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    first,
    judged,
    outcomes,
    valued,
)

NAN = float("nan")


def steps(losses: Iterable[float], name: str = "loss", mode: Mode = Mode.TRAIN) -> Iterator[Step]:
    for at, loss in enumerate(losses):
        tensor = valued(name, float(loss), role=Role.LOSS)
        yield Step(10 * at, mode, 10 * at, 0.0, {"losses": (tensor,)})


def course(*parts: tuple[int, float], noise: float = 0.05, seed: int = 0) -> NDArray[np.float64]:
    """A descent from 2.3 to 0.3, then parts of a length and a level, all with noise."""
    falls = 0.3 + 2.0 * np.exp(-np.arange(100) / 15)
    levels = [np.full(length, level) for length, level in parts]
    whole = np.concatenate([falls, *levels])
    return whole + noise * np.random.default_rng(seed).normal(size=len(whole))


def slight(level: float) -> NDArray[np.float64]:
    """A loss of this level, which falls by 0.05 and then rises by 0.2, with little noise."""
    whole = np.r_[np.linspace(0, -0.05, 40), np.linspace(-0.05, 0.15, 60)]
    return level + whole + 0.01 * np.random.default_rng(0).normal(size=100)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (course((100, 0.3)), HEALTHY),
        (course((100, 1.8)), VIOLATION),
        (course((100, 9.0)), VIOLATION),
        (course((100, 0.6)), HEALTHY),  # less than half of it is lost
        (course((4, 9.0), (96, 0.3)), HEALTHY),  # a spike
        (course((60, 1.8), (200, 0.3)), HEALTHY),  # resolved
        (course((100, 0.3), noise=0.5), HEALTHY),
        (course((1000, 0.3)), HEALTHY),
        (course((900, 0.3), (600, 2.0)), VIOLATION),
        (np.full(100, 2.3), HEALTHY),
        (2.3 + 0.05 * np.arange(100), VIOLATION),  # rises from the start
        (np.arange(20.0), UNDECIDED),
        (np.r_[course(), [NAN] * 3], VIOLATION),
        (np.r_[course(), [NAN] * 2], HEALTHY),
        (np.r_[course(), [1e6] * 5], VIOLATION),
        (course((100, 1.6)) - 5, HEALTHY),  # below zero two thirds of it are not enough
        (course((100, 2.4)) - 5, VIOLATION),
        (np.random.default_rng(0).normal(size=300), HEALTHY),
        (slight(120.0), HEALTHY),  # by a thousandth
        (slight(-120.0), HEALTHY),
        (slight(4.0), VIOLATION),  # by 4 %
        (np.r_[1.0, slight(120.0)[70:] / 119], HEALTHY),  # never fell
        (course((100, 1.8)) + 1000, VIOLATION),  # beside what was learned it is much
        (np.sin(np.arange(300) / 5) + np.arange(300) / 300, HEALTHY),  # a policy's
    ],
)
def test_courses(losses: NDArray[np.float64], expected: Outcome) -> None:
    for scale, shift in ((1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1.0, 7.0)):
        if shift and expected is HEALTHY and np.nanmin(losses) < 0:
            continue  # above zero a loss has a level
        found = outcomes(LossWorse(), steps(scale * losses + shift))
        assert found[-1] is expected, (scale, shift)


def test_it_fires_soon() -> None:
    at = first(judged(LossWorse(), steps(course((100, 0.3), (100, 2.0)))))
    assert at is not None
    assert 200 < at < 230


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_noise_is_no_rise(correlation: float) -> None:
    """Of 20 healthy runs with heavy tails and correlated noise hardly one is alarmed."""
    alarmed = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        noise = np.zeros(400)
        for at in range(1, 400):
            noise[at] = correlation * noise[at - 1] + random.standard_t(3)
        noise *= 0.1 / noise.std()
        losses = 0.3 + 2.0 * np.exp(-np.arange(400) / 60) + noise
        alarmed += first(judged(LossWorse(), steps(losses))) is not None
    assert alarmed <= 1


def test_losses_that_compete_are_not_judged() -> None:
    rises = course((100, 2.0))
    falls = 2.3 * np.exp(-np.arange(len(rises)) / 50)
    both = [
        replace(one, tensors={"losses": (*one.tensors["losses"], *other.tensors["losses"])})
        for one, other in zip(steps(rises, "a"), steps(falls, "b"), strict=True)
    ]
    assert outcomes(LossWorse(), both)[-1] is HEALTHY
    marked = [
        replace(step, tensors={"losses": (replace(step.tensors["losses"][0], kind=COMPETING),)})
        for step in steps(rises)
    ]
    assert set(outcomes(LossWorse(), marked)) == {Outcome.NOT_APPLICABLE}


def test_numbers_that_differ_look_different() -> None:
    verdicts = judged(LossWorse(), steps(course((100, 1.8)) + 1000))
    detail = next(verdict for verdict in verdicts if verdict.violation).detail
    assert len(set(re.findall(r"\b1[\de.+]+", detail))) == 3


def test_an_accuracy_that_falls() -> None:
    assert outcomes(LossWorse(), steps(-course((100, 1.8)), "accuracy"))[-1] is VIOLATION


def test_evaluations_are_not_judged() -> None:
    assert set(outcomes(LossWorse(), steps(course((100, 9.0)), mode=Mode.EVAL))) == {NOT_APPLICABLE}


def test_a_sketch_has_the_whole_course() -> None:
    sketch: dict[str, object] = {}
    for number in np.linspace(5, 1, 10_000):
        sketch = sketched(sketch, float(number))
    blocks = sketch["blocks"]
    assert isinstance(blocks, list)
    assert 32 <= len(blocks) < 64
    assert blocks == sorted(blocks, reverse=True)
    assert 4.9 < blocks[0] < 5
    assert 1 < blocks[-1] < 1.2
