from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import COMPETING, Mode, Outcome, Role, Verdict
from tocsin.rules import Baseline, Step
from tocsin.rules._baseline import observed, with_seconds

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    made,
    valued,
)

Curve = NDArray[np.float64]


def falling(to: float, steps: int = 60, noise: float = 0.02, seed: int = 0) -> Curve:
    """A loss that falls from 2.3, with noise."""
    fall = to + (2.3 - to) * np.exp(-np.arange(steps) / 10)
    return fall + noise * np.random.default_rng(seed).normal(size=steps)


def steps(
    losses: Iterable[float],
    name: str = "loss",
    mode: Mode = Mode.TRAIN,
    kind: str | None = None,
    gradients: Iterable[float] = (),
    apart: int = 10,
    seconds: float = 0.0,
) -> Iterator[Step]:
    norms = iter(gradients)
    for number, loss in enumerate(losses):
        at = apart * number
        loss_tensor = valued(name, float(loss), role=Role.LOSS, kind=kind)
        norm = next(norms, None)
        gradient = () if norm is None else (valued("gradient/w", norm, role=Role.GRADIENT),)
        yield Step(at, mode, at, at * seconds, {"losses": (loss_tensor,), "gradients": gradient})


def baseline(run: Iterable[Step], name: str = "main") -> Baseline:
    return Baseline(name, tuple(with_seconds([observed(step) for step in run])))


def beside(run: Iterable[Step], *known: Baseline, **parameters: float) -> list[Verdict]:
    names = ",".join(each.run for each in known) or "main"
    rule = made("WorseThanBaseline", runs=names, **parameters)
    return judged(rule, (replace(step, baselines=known) for step in run))


def last(run: Iterable[Step], *known: Baseline, **parameters: float) -> Outcome:
    return beside(run, *known, **parameters)[-1].outcome


GOOD = baseline(steps(falling(0.3)))


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        pytest.param(falling(0.3, seed=1), HEALTHY, id="another seed"),
        pytest.param(falling(0.1, seed=1), HEALTHY, id="better"),
        pytest.param(falling(0.7, seed=1), HEALTHY, id="a fifth is missing"),
        pytest.param(falling(1.0, seed=1), VIOLATION, id="a third is missing"),
        pytest.param(falling(2.3, seed=1), VIOLATION, id="has not learned"),
        pytest.param(falling(1.0, noise=2.0, seed=1), HEALTHY, id="within its noise"),
        pytest.param(10 * falling(0.3, seed=1), NOT_APPLICABLE, id="another scale"),
        pytest.param(falling(2.3, steps=2), UNDECIDED, id="two saves"),
        pytest.param(np.full(60, np.nan), NOT_APPLICABLE, id="not finite, as other rules say"),
    ],
)
def test_losses(losses: Curve, expected: Outcome) -> None:
    assert last(steps(losses), GOOD) is expected


def test_says_what_it_compared_and_how_sure_it_is() -> None:
    verdict = beside(steps(falling(2.3, seed=1)), GOOD)[-1]
    assert verdict.detail.startswith(
        "loss: training loss is 2.298; at this step, main had fallen from"
    )
    assert verdict.detail.endswith("100 % of that improvement is missing")
    assert verdict.evidence["missing"] == pytest.approx(1.0, abs=0.05)
    assert float(verdict.evidence["confidence"]) > 0.999


def test_steps_that_are_saved_more_rarely_are_compared_all_the_same() -> None:
    every_tenth, every_70th = falling(0.3, steps=600), falling(0.3, steps=600)[::7]
    assert (
        last(steps(falling(0.3, steps=600, seed=1), apart=1), baseline(steps(every_tenth, apart=1)))
        is HEALTHY
    )
    rare = baseline(steps(every_70th, apart=7))
    assert last(steps(falling(0.3, steps=600, seed=1), apart=1), rare) is HEALTHY
    assert last(steps(falling(1.5, steps=600, seed=1), apart=1), rare) is VIOLATION


def test_nothing_is_compared_after_the_end_of_the_baseline() -> None:
    short = baseline(steps(falling(0.3, steps=20)))
    assert last(steps(falling(2.3, steps=60, seed=1)), short) is UNDECIDED


def test_worse_than_every_baseline() -> None:
    other = baseline(steps(falling(0.9, seed=2)), "other")
    run = list(steps(falling(1.0, seed=1)))
    assert last(run, GOOD) is VIOLATION
    assert last(run, GOOD, other) is HEALTHY
    assert last(steps(falling(2.2, seed=1)), GOOD, other) is VIOLATION


def test_an_evaluation_counts_from_the_start_of_the_training() -> None:
    def whole(evaluated: Sequence[float], seed: int) -> Iterator[Step]:
        for number, step in enumerate(steps(falling(0.3, seed=seed), "train_loss", apart=1)):
            yield replace(step, step=2 * number)
            if number % 10 == 9:
                ((of, tensors),) = [
                    ("losses", (valued("val_loss", evaluated[number // 10], role=Role.LOSS),))
                ]
                at = number // 10
                yield Step(2 * number + 1, Mode.EVAL, at, 0.0, {of: tensors, "gradients": ()})

    good = baseline(whole([0.5, 0.48, 0.46, 0.45, 0.45, 0.45], 0))
    slightly = [0.52, 0.52, 0.52, 0.52, 0.52, 0.52]
    assert last(whole(slightly, 1), good) is HEALTHY  # 4 % of what was learned since 2.3
    verdict = beside(whole([1.4] * 6, 1), good)[-1]
    assert verdict.outcome is VIOLATION
    assert verdict.detail.startswith(
        "val_loss: evaluation loss is 1.4; at this step, main had fallen from"
    )


def test_gradients_where_the_loss_has_no_level() -> None:
    losses = np.zeros(60)

    def policy(norms: Curve) -> Iterator[Step]:
        return steps(losses, kind=COMPETING, gradients=norms)

    norms = 1 + 0.1 * np.random.default_rng(0).normal(size=60)
    good = baseline(policy(norms))
    assert last(policy(norms[::-1]), good) is HEALTHY
    assert last(policy(3 * norms), good) is HEALTHY
    assert last(policy(0 * norms), good) is VIOLATION
    verdict = beside(policy(20 * norms), good)[-1]
    assert verdict.detail == "the norm of all gradients is 20.8; at this step, it was 1.04 in main"
    vanishing = norms * np.exp(-np.arange(60) / 5)
    assert last(policy(20 * vanishing), baseline(policy(vanishing))) is HEALTHY  # both near 0


def test_the_time_of_a_step_counts_where_a_factor_is_set() -> None:
    good = baseline(steps(falling(0.3), seconds=0.1))
    slow = list(steps(falling(0.3, seed=1), seconds=0.25))
    assert last(slow, good) is HEALTHY
    assert last(slow, good, slower=3) is HEALTHY
    verdict = beside(slow, good, slower=2)[-1]
    assert verdict.detail == "a step takes 0.25 s; it took 0.1 s in main"
    copied = baseline(steps(falling(0.3), seconds=0.0))  # all files of one time
    assert last(slow, copied, slower=2) is HEALTHY


def test_without_a_baseline() -> None:
    run = list(steps(falling(0.3)))
    assert beside(run)[-1].detail == "no baseline: name one with --baseline"
    gone = Baseline("gone", (), "it has no step that can be read")
    verdict = beside(run, gone)[-1]
    assert verdict.outcome is NOT_APPLICABLE
    assert verdict.detail == "baseline gone: it has no step that can be read"
    assert last(run, gone, GOOD) is HEALTHY
