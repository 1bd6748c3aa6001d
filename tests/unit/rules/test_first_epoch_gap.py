from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.data.first_epoch_gap import FirstEpochGap

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    outcomes,
)

NAN = float("nan")
KEPT, BATCH = 64, 32


def tensor(name: str, value: Any, role: Role, kind: str | None = None) -> Tensor:
    array = np.asarray(value, float)
    return Tensor(
        name, "worker_0", TensorSummary(size=array.size), array.shape, "float64", role, kind, array
    )


def compared(
    loss: float, constant: float, samples: int, kind: str | None = "mse_loss", repaired: float = 2.0
) -> tuple[Tensor, ...]:
    return (tensor("loss/skill", [[loss, repaired, constant, samples]], Role.SKILL, kind),)


def run(
    evaluated: Sequence[float],
    trained: float | Sequence[float] = 0.5,
    *,
    constant: float = 2.0,
    different: int | None = None,
    samples: int = 500,
    batch: int = BATCH,
    unit: float = 1.0,
    every: int = 10,
    repaired: float = 2.0,
) -> Iterator[Step]:
    """Every tenth step is saved; an evaluation after so many saves.

    ``different`` samples are drawn from, or new ones each time; ``unit``: of evaluations' losses.
    """
    draw = np.random.default_rng(0)
    known = None if different is None else draw.random(different)
    for at in range(every * len(evaluated)):
        hashes = draw.random(10 * BATCH) if known is None else draw.choice(known, 10 * BATCH)
        seen = [10, 10 * BATCH, 100, *np.unique(hashes)[:KEPT]]
        level = trained if isinstance(trained, float) else trained[at % len(trained)]
        found = {
            "skills": compared(level, constant, BATCH, repaired=repaired),
            "samples": (tensor("samples", seen, Role.SAMPLE),),
        }
        step = 10 * at
        yield Step(step, Mode.TRAIN, step, float(at), found)
        if at % every == every - 1:
            loss = evaluated[at // every] * unit
            rows = [
                [loss, repaired * unit, constant * unit, batch]
                for _ in range(max(1, samples // batch))
            ]
            tested = {"skills": (tensor("loss/skill", rows, Role.SKILL, "mse_loss"),)}
            yield Step(step + 1, Mode.EVAL, at // every, float(at), {**tested, "samples": ()})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1.0] * 4), VIOLATION),
        (run([0.6] * 4), HEALTHY),
        (run([1.0]), UNDECIDED),  # a single evaluation
        (run([1.0, 1.0, 0.6]), HEALTHY),  # statistics of normalisation lagged
        (run([0.6, 0.6, 1.0, 1.0, 1.0]), HEALTHY),  # it came later: varied samples look new
        (run([1.0] * 4, different=200), UNDECIDED),  # seen again and again: it may overfit
        (run([1.0] * 4, [0.1] * 7 + [2.0]), HEALTHY),  # a save of training was as bad
        (run([1.0] * 4, 1.8), UNDECIDED),  # hardly anything is learned
        (run([1.0] * 4, samples=32), UNDECIDED),  # too few samples
        (run([0.5] * 4, unit=100.0), HEALTHY),  # a sum in evaluations, a mean in training
        (run([1.0] * 4, unit=100.0), VIOLATION),
        (run([1.0] * 4, constant=NAN), VIOLATION),
        (run([1.0] * 4, constant=NAN, batch=100), HEALTHY),  # as a contrastive loss
        (run([1.0] * 4, batch=100), VIOLATION),
        (run([1.0] * 4, repaired=-2.0), UNDECIDED),
        (run([1.0, 1.0, 1.0], every=4), UNDECIDED),  # too early
        (run([NAN] * 4), UNDECIDED),
    ],
)
def test_courses(steps: Iterator[Step], expected: object) -> None:
    known = [each for each in outcomes(FirstEpochGap(), steps) if each is not NOT_APPLICABLE]
    assert (known or [UNDECIDED])[-1] is expected


def test_where_samples_are_counted_no_more_it_is_unknown_whether_they_are_new() -> None:
    steps = [
        replace(step, tensors={**step.tensors, "samples": ()}) if step.step > 20 else step
        for step in run([1.0] * 4)
    ]
    assert VIOLATION not in outcomes(FirstEpochGap(), steps)


def test_an_early_evaluation_without_a_gap_counts() -> None:
    """One after forty steps, and others after a hundred."""
    early, *rest = run([0.6] + [1.0] * 6, every=4)
    assert outcomes(FirstEpochGap(), [early, *rest])[-1] is not VIOLATION
    assert outcomes(FirstEpochGap(), run([1.0] * 7, every=4))[-1] is VIOLATION


def test_early_evaluations_say_nothing_before_something_is_learned() -> None:
    """Both losses are near that of a constant guess at first."""
    losses = [1.9] * 4 + [0.5] * 36
    steps = [
        replace(
            step,
            tensors={**step.tensors, "skills": compared(losses[step.step // 10], 2.0, BATCH)},
        )
        if step.mode is Mode.TRAIN
        else step
        for step in run([2.0] + [1.0] * 9, every=4)
    ]
    assert outcomes(FirstEpochGap(), steps)[-1] is VIOLATION


def test_a_gap_that_began_in_the_first_epoch_is_one_later() -> None:
    """Two epochs of 6400 samples, and an evaluation after each."""
    epoch = np.random.default_rng(1).random((20, 320))
    steps = []
    for step in run([1.0, 1.0], every=20):
        if step.mode is Mode.TRAIN:
            hashes = np.sort(epoch[step.step // 10 % 20])[:KEPT]
            seen = (tensor("samples", [10, 320, 100, *hashes], Role.SAMPLE),)
            step = replace(step, tensors={**step.tensors, "samples": seen})
        steps.append(step)
    assert outcomes(FirstEpochGap(), steps)[-1] is VIOLATION


def test_heads_with_the_same_function_are_followed_one_by_one() -> None:
    """One evaluation with a gap is one, however many losses it has."""
    steps = []
    for step in run([1.0, 0.6]):
        both = [replace(each, name=f"{n}/skill") for each in step.tensors["skills"] for n in "ab"]
        steps.append(replace(step, tensors={**step.tensors, "skills": tuple(both)}))
    assert VIOLATION not in outcomes(FirstEpochGap(), steps)


def test_steps_of_which_samples_are_unknown_end_the_first_epoch() -> None:
    """After some hundred steps the hook looks at saved ones only."""
    steps = [replace(step, mode_step=3 * step.mode_step) for step in run([1.0] * 4)]
    assert VIOLATION not in outcomes(FirstEpochGap(), steps)


def test_without_hashes_it_says_so() -> None:
    found = {"skills": compared(0.5, 2.0, 32), "samples": ()}
    (verdict,) = judged(FirstEpochGap(), [Step(0, Mode.TRAIN, 0, 0.0, found)])
    assert (verdict.outcome, verdict.detail) == (
        NOT_APPLICABLE,
        "no sample hashes of training",
    )


def test_it_says_both_losses() -> None:
    detail = judged(FirstEpochGap(), run([1.0] * 3))[-1].detail
    trained = "training loss on samples that were new to the model was 0.5"
    assert detail == f"mse_loss: evaluation loss is 1, {trained}"
