"""Summaries of save intervals: the numbers of all steps, and which of them are spikes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from tocsin.model import TensorSummary
from tocsin_hooks.interval import IntervalSummary

NAN, INF = float("nan"), float("inf")
RANDOM = np.random.default_rng(3)
NOISE = RANDOM.standard_normal(600)
STEPS = np.arange(600)
SINGLE = RANDOM.chisquare(1, 600)  # squared errors of single samples


def summaries(
    losses: ArrayLike, norms: ArrayLike | None = None, every: int = 10
) -> list[tuple[TensorSummary, TensorSummary | None]]:
    """Return the summaries of the losses and the norms of each interval."""
    summary, found = IntervalSummary(), []
    loss = np.asarray(losses, np.float64)
    norm = None if norms is None else np.asarray(norms, np.float64)
    for start in range(0, len(loss), every):
        steps = [*range(start, min(start + every, len(loss)))]
        of_losses = summary.losses(steps, loss[steps])
        of_norms = None if norm is None else summary.norms(steps, norm[steps], loss[steps])
        found.append((of_losses, of_norms))
    return found


def spikes(found: Sequence[TensorSummary | None]) -> int:
    return sum(each.bounds.above for each in found if each is not None and each.bounds is not None)


def test_an_interval_has_its_numbers_and_the_step_of_the_maximum() -> None:
    [(found, _)] = summaries([3.0, NAN, 1.0, 2.0, -1.0], every=5)
    assert (found.size, found.nan, found.posinf) == (5, 1, 0)
    assert (found.min, found.max, found.mean) == (-1.0, 3.0, 1.25)
    assert found.quantiles == {"0.5": 1.5}
    assert found.max_step == 1  # that is not finite
    assert found.bounds is None


def test_nothing_is_finite() -> None:
    [(found, _)] = summaries([NAN, INF, -INF], every=3)
    assert (found.nan, found.posinf, found.neginf) == (1, 1, 1)
    assert found.max is None
    assert found.quantiles is None


def with_spikes(numbers: Any, factor: float, at: Sequence[int]) -> Any:
    found = np.array(numbers, np.float64)
    found[list(at)] *= factor
    return found


AT = range(103, 600, 40)


@pytest.mark.parametrize("every", [1, 10, 37, 600])
def test_spikes_between_saves_are_counted(every: int) -> None:
    losses = with_spikes(2.0 + 0.1 * NOISE, 40.0, AT)
    norms = with_spikes(0.5 + 0.05 * NOISE, 90.0, AT[::2])
    found = summaries(losses, np.ones(600), every)
    assert spikes([loss for loss, _ in found]) == len(AT)
    assert spikes([norm for _, norm in found]) == 0
    found = summaries(2.0 + 0.1 * NOISE, norms, every)
    assert spikes([loss for loss, _ in found]) == 0
    assert spikes([norm for _, norm in found]) == len(AT[::2])


@pytest.mark.parametrize("every", [1, 10, 37, 600])
@pytest.mark.parametrize(
    ("losses", "norms"),
    [
        pytest.param(SINGLE, np.sqrt(SINGLE), id="single samples"),
        pytest.param(SINGLE * 0.98**STEPS, np.sqrt(SINGLE) * 0.99**STEPS, id="learned"),
        pytest.param(np.exp(NOISE), np.exp(NOISE), id="heavy tails"),
        pytest.param(NOISE, np.abs(NOISE), id="about zero"),
        pytest.param(-(2.0 ** (STEPS / 20)), 2.0 ** (STEPS / 20), id="unbounded below"),
        pytest.param(2.0 ** (STEPS / 20), 2.0 ** (STEPS / 20), id="diverges"),
        pytest.param(
            np.where(STEPS < 300, 2.3, 2.3 * 0.97 ** (STEPS - 300)),
            np.where(STEPS < 280, 1e-4, 1e-4 * 1.15 ** np.minimum(STEPS - 280, 60)),
            id="leaves a plateau",
        ),
        pytest.param(
            np.where(STEPS % 7, 2.0 * 0.98**STEPS, 0.4),
            np.where(STEPS % 7, 1.0 * 0.98**STEPS, 0.2),
            id="a rare class",
        ),
        pytest.param(np.where(STEPS % 9, 0.0, 0.3), np.where(STEPS % 9, 0.0, 1.0), id="a margin"),
        pytest.param(np.zeros(600), np.zeros(600), id="zeros"),
        pytest.param(np.full(600, NAN), np.full(600, NAN), id="lost"),
    ],
)
def test_what_is_not_a_spike(losses: Any, norms: Any, every: int) -> None:
    found = summaries(losses, norms, every)
    assert spikes([loss for loss, _ in found]) <= 1
    assert spikes([norm for _, norm in found]) <= 1


def test_without_a_finite_loss_no_gradient_is_a_spike() -> None:
    summary = IntervalSummary()
    lost = np.array([NAN])
    found = [summary.norms([step], np.array([10.0 ** (step % 3)]), lost) for step in range(100)]
    assert all(each.bounds is None for each in found)
