from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest
from tocsin.model import COMPETING, Mode, Outcome, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients.update_too_large import UpdateTooLarge
from tocsin.rules.gradients.update_too_small import UpdateTooSmall

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import HEALTHY, UNDECIDED, VIOLATION, judged, outcomes


def run(
    updates: list[float],
    losses: list[float],
    gradient: float = 1.0,
    skill: float = 0.0,
    kind: str | None = None,
) -> Iterator[Step]:
    """Saves of every tenth step: |Δw| of one step, with |w| = 1."""
    compared = comparisons(noisy(skill, 10 * len(updates)))
    for at, (update, loss, skills) in enumerate(zip(updates, losses, compared, strict=True)):
        before = Tensor("w", "worker_0", TensorSummary(l2=1.0), role=Role.WEIGHT)
        moved = TensorSummary(l2=1.0, update_l2=10 * update)
        weight = replace(before, summary=moved, previous=(before,) if at else ())
        found = {
            "weights": (weight,),
            "gradients": (Tensor("gradient/w", "worker_0", TensorSummary(l2=gradient)),),
            "losses": (Tensor("loss", "worker_0", TensorSummary(mean=loss), kind=kind),),
            **skills.tensors,
        }
        yield Step(10 * at, Mode.TRAIN, 10 * at, float(at), found)


FLAT = [2.0] * 30
FALLS = [2.0 - 0.01 * at for at in range(30)]
NOISY = [2.0 - 0.01 * at + 0.2 * (-1) ** at for at in range(30)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1e-3] * 30, FLAT), HEALTHY),
        (run([1e-8] * 30, FLAT), VIOLATION),
        (run([1e-3] * 30, FLAT, gradient=1e-4), VIOLATION),  # nothing to gain
        (run([1e-3] * 30, FLAT, gradient=1e-4, kind=COMPETING), HEALTHY),  # a balance
        (run([1e-8] * 30, FLAT, gradient=1e-4, kind=COMPETING), VIOLATION),
        (run([6e-4] * 30, FLAT), VIOLATION),  # too little for as many steps
        (run([6e-4] * 30, FLAT, skill=0.5), HEALTHY),  # it learns
        (run([6e-4] * 200, [2.0] * 200), HEALTHY),  # enough for as many
        (run([1e-8] * 200, [2.0] * 200), VIOLATION),
        (run([1e-8] * 4, FLAT[:4]), UNDECIDED),
        (run([1e-3] * 5 + [1e-8] * 25, FLAT), UNDECIDED),  # the schedule has ended
        (run([1e-8] * 30, FLAT, gradient=1e6, skill=0.5), HEALTHY),  # it learns
        (run([1e-8] * 30, FLAT, skill=0.5), VIOLATION),  # hardly
        (run([2e-4] * 30, FLAT, skill=0.5), VIOLATION),
        (run([2e-4] * 30, FALLS, skill=0.5), HEALTHY),  # slowly, but it left its start
        (run([2e-4] * 30, FALLS), VIOLATION),  # nothing proves that it learns
        (run([2e-4] * 30, NOISY, skill=0.5), VIOLATION),
        (run([1e-8] * 30, FALLS, skill=0.5), VIOLATION),  # by few of the weights
        (run([1e-4] * 30, [0.5, -0.4, 1e-3] * 10), VIOLATION),  # 0 is no level of these
        (run([1e-3] * 30, [0.5, -0.4, 1e-3] * 10), HEALTHY),
        (run([1e-5 * 1.1**at for at in range(30)], FLAT, skill=0.5), UNDECIDED),  # a warm-up
    ],
)
def test_too_small(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(UpdateTooSmall(), steps)[-1] is expected


@pytest.mark.parametrize(
    ("gradients", "clipped"),
    [
        ([1e-4] * 20, True),
        ([1.37e-4] * 20, False),  # a full batch, of which nothing is learned
        ([1e-4, 0.7e-4] * 10, False),  # most batches stay below the limit
    ],
)
def test_names_the_limit_of_clipping(gradients: list[float], clipped: bool) -> None:
    steps = [
        next(islice(run([1e-5] * (at + 1), FLAT[: at + 1], gradient=norm), at, None))
        for at, norm in enumerate(gradients)
    ]
    last = judged(UpdateTooSmall(), steps)[-1]
    assert last.violation
    limit = "the norm of all gradients is always 0.0001: they are clipped, raise the limit"
    assert last.detail.endswith(limit) is clipped


def test_a_rate_that_falls_further_takes_nothing_back() -> None:
    rates = [1e-8] * 20 + [1e-8 * 0.5**at for at in range(10)]
    found = outcomes(UpdateTooSmall(), run(rates, FLAT))
    assert VIOLATION in found
    assert HEALTHY not in found[8:]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([0.01] * 30, FLAT), HEALTHY),
        (run([5.0] * 30, FLAT), VIOLATION),
        (run([0.01] * 15 + [50.0] * 15, [2.0] * 15 + [9.0] * 15), VIOLATION),
        (run([5.0] * 30, [2.0 - 0.01 * at for at in range(30)]), HEALTHY),  # and it helps
        (run([0.01] * 26 + [5.0] * 4, FLAT), HEALTHY),  # not often enough
        (run([5.0] * 30, [0.0] * 30), UNDECIDED),  # a loss that is always 0 has no size
    ],
)
def test_too_large(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(UpdateTooLarge(), steps)[-1] is expected
