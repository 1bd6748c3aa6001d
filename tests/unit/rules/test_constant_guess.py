"""NoBetterThanGuessing where the hook compares each loss with that of a constant guess."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules.skill.no_better_than_guessing import NoBetterThanGuessing

from tests.unit.rules.judging import (
    HEALTHY,
    UNDECIDED,
    VIOLATION,
    first,
    judged,
    outcomes,
    valued,
)

AT = np.linspace(0, 1, 1000)


def run(
    losses: np.ndarray, skill: float = 0.02, *, constant: float = 3.0, every: int = 10,
    scale: float = 1.0, mode: Mode = Mode.TRAIN,
) -> Iterator[Step]:  # fmt: skip
    """Saves of a run whose loss at each step is compared with a constant guess's, with noise."""
    noise = 1 + 0.05 * np.random.default_rng(0).normal(size=len(losses))
    for at in range(0, len(losses), every):
        here = scale * losses[at : at + every] * noise[at : at + every]
        rows = [[x, x / (1 - skill), scale * constant, 32.0] for x in here]
        if at == 0:
            rows[0][2] = float("nan")  # there was no label yet to know a constant by
        tensor = valued("loss/skill", np.array(rows), role=Role.SKILL, kind="cross_entropy")
        read = {"skills": (tensor,), "labels": (), "predictions": (), "metrics": (), "biases": ()}
        yield Step(at + len(here), mode, at + len(here), 0.0, read)


@pytest.mark.parametrize(
    ("losses", "skill", "expected"),
    [
        pytest.param(np.full(1000, 4.0), 0.02, VIOLATION, id="above the constant guess"),
        pytest.param(4.4 - 0.3 * AT, 0.02, VIOLATION, id="hardly falls"),
        pytest.param(np.full(1000, 3.03), 0.02, VIOLATION, id="as good as the constant guess"),
        pytest.param(np.full(1000, 4.0), 0.3, HEALTHY, id="depends on the labels"),
        pytest.param(4.4 - 2.0 * AT, 0.02, HEALTHY, id="on its way"),
        pytest.param(60.0 - 45.0 * AT, 0.3, VIOLATION, id="on its way, but far above"),
        pytest.param(60.0 - 45.0 * AT[:190], 0.3, HEALTHY, id="far above, patience"),
        pytest.param(np.full(1000, 2.9), 0.02, HEALTHY, id="a little better"),
        pytest.param(np.where(AT < 0.1, 30.0, 2.0), 0.3, HEALTHY, id="after a bad start"),
        pytest.param(np.full(140, 4.0), 0.02, UNDECIDED, id="patience"),
        pytest.param(np.full(250, 4.0), 0.02, VIOLATION, id="clearly above, in a short run"),
        pytest.param(np.full(290, 3.03), 0.02, HEALTHY, id="not clearly above, in a short run"),
    ],
)
def test_courses(losses: np.ndarray, skill: float, expected: Outcome) -> None:
    assert outcomes(NoBetterThanGuessing(), run(losses, skill))[-1] is expected


def test_a_late_start_resolves_it() -> None:
    losses = np.concatenate([np.full(1000, 3.5), np.full(3000, 1.0)])
    verdicts = judged(NoBetterThanGuessing(), run(losses))
    at = first(verdicts)
    assert at is not None
    assert 15 <= at <= 25
    assert "16 % above that of a constant prediction" in verdicts[at].detail
    assert verdicts[-1].outcome is HEALTHY


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (
            4.0,
            "cross_entropy is 33 % above that of a constant prediction in the last half of the run",
        ),
        (37.0, "is at least 12 times that of a constant prediction"),
        (3e5, "is at least 20 times that of a constant prediction"),  # so many are told apart
        (3.03, "is not below that of a constant prediction"),
    ],
)
def test_it_says_how_much_above(loss: float, expected: str) -> None:
    detail = judged(NoBetterThanGuessing(), run(np.full(1000, loss)))[-1].detail or ""
    assert expected in detail
    assert "(999 comparisons)" in detail


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_it_has_no_unit(scale: float) -> None:
    losses = 4.4 - 0.3 * AT
    assert outcomes(NoBetterThanGuessing(), run(losses, scale=scale)) == outcomes(
        NoBetterThanGuessing(), run(losses)
    )


@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.EVAL])
def test_losses_without_bounds_leave_a_state_that_can_be_kept(mode: Mode) -> None:
    state: Any = {}
    before = run(np.full(400, 1.0), 0.5) if mode is Mode.EVAL else ()
    for step in [*before, *run(np.full(1000, 1e305), 0.01, constant=1e-10, mode=mode)]:
        state, verdict = NoBetterThanGuessing().evaluate(state, step)
    assert verdict.outcome is VIOLATION
    assert json.loads(json.dumps(state, allow_nan=False)) == state


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("loss", "expected"), [(-8e307, HEALTHY), (8e307, VIOLATION)])
def test_losses_whose_sums_are_not_finite(loss: float, expected: Outcome) -> None:
    assert outcomes(NoBetterThanGuessing(), run(np.full(400, loss)))[-1] is expected


def test_what_an_earlier_version_kept_is_no_error() -> None:
    """Its blocks had other names: those of the comparisons from here on count."""
    kept = {"n": 400, "width": 8, "blocks": [[32.0, 33.0, 24.0]] * 50, "since": -400}
    state: Any = {"compared": {"spent": 0, "sites": {"TRAIN/loss/skill": kept}}}
    found = []
    for step in run(np.full(1000, 4.0)):
        state, verdict = NoBetterThanGuessing().evaluate(state, step)
        found.append(verdict.outcome)
    assert found[0] is UNDECIDED
    assert found[-1] is VIOLATION


def test_rare_saves_come_to_the_same_verdict() -> None:
    found = [
        outcomes(NoBetterThanGuessing(), run(np.full(1000, 4.0), every=every))[-1]
        for every in (1, 10, 250)
    ]
    assert found == [VIOLATION] * 3


@pytest.mark.parametrize(
    ("evaluated", "skill", "expected"),
    [
        pytest.param([3.1, 3.2, 3.15, 3.2], 0.01, VIOLATION, id="above the constant guess"),
        pytest.param([3.0, 2.98, 2.99, 3.0], 0.01, VIOLATION, id="as good as the constant guess"),
        pytest.param([3.1, 3.2], 0.01, HEALTHY, id="too few"),
        pytest.param([3.1, 3.2, 3.15, 2.8], 0.01, HEALTHY, id="one is better"),
        pytest.param([3.1, 3.2, 3.15, 3.2], 0.2, HEALTHY, id="depends on the labels"),
        pytest.param([4.5, 4.0, 3.6, 3.3], 0.01, HEALTHY, id="on its way"),
    ],
)
def test_evaluations(evaluated: list[float], skill: float, expected: Outcome) -> None:
    """Training itself is well: it has learned its samples by heart."""
    tested = run(np.repeat(evaluated, 10), skill, mode=Mode.EVAL)
    steps = [*run(np.full(1000, 1.0), 0.5), *tested, *run(np.full(1200, 1.0), 0.5)]
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected


@pytest.mark.parametrize(
    ("evaluated", "expected"),
    [
        pytest.param([3.6] * 14, VIOLATION, id="all clearly above the constant guess"),
        pytest.param([3.6] * 10, HEALTHY, id="too few samples"),
        pytest.param([3.6, 2.5] + [3.6] * 12, HEALTHY, id="one was better"),
        pytest.param([3.05] * 14, HEALTHY, id="not clearly above"),
    ],
)
def test_evaluations_of_few_samples(evaluated: list[float], expected: Outcome) -> None:
    """Together they have enough where all say the same."""
    tested = run(np.array(evaluated), 0.01, mode=Mode.EVAL, every=1)
    steps = [*run(np.full(1000, 1.0), 0.5), *tested, *run(np.full(1200, 1.0), 0.5)]
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected
