from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients.no_gradient import NoGradient

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, judged, outcomes


def steps(
    saves: Iterable[Sequence[float | None]], loss: float | None = 1.0, mode: Mode = Mode.TRAIN
) -> Iterator[Step]:
    """Each save has the mean |g| of these gradients."""
    for at, means in enumerate(saves):
        yield a_step(at, {f"gradient/w{i}": mean for i, mean in enumerate(means)}, loss, mode)


def a_step(at: int, means: dict[str, float | None], loss: float | None, mode: Mode) -> Step:
    gradients = tuple(
        Tensor(name, "worker_0", TensorSummary(size=4, abs_mean=mean), role=Role.GRADIENT)
        for name, mean in means.items()
    )
    known = TensorSummary(abs_mean=loss)
    losses = () if loss is None else (Tensor("loss", "worker_0", known, role=Role.LOSS),)
    return Step(at, mode, at, float(at), {"gradients": gradients, "losses": losses})


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (steps([(0.0, 0.0)] * 10), VIOLATION),
        (steps([(0.0, 0.0)] * 9), UNDECIDED),
        (steps([(0.0, 1e-9)] * 20), HEALTHY),
        (steps([(0.0, 0.0)] * 9 + [(0.0, 1e-9)] + [(0.0, 0.0)] * 9), UNDECIDED),
        (steps([(1.0, 1.0)] * 30 + [(0.0, 0.0)] * 10), VIOLATION),  # it died
        (steps([(0.0, 0.0)] * 20 + [(1.0, 1.0)]), HEALTHY),
        (steps([(0.0, None)] * 20), HEALTHY),  # not finite, or not known
        (steps([(0.0, 0.0)] * 10, loss=0.0), VIOLATION),
        (steps([(0.0, 0.0)] * 9, loss=0.0), UNDECIDED),
        (steps([(0.0, 0.0)] * 20, loss=None), NOT_APPLICABLE),
        (steps([()] * 20), NOT_APPLICABLE),
        (steps([(0.0, 0.0)] * 20, mode=Mode.EVAL), NOT_APPLICABLE),
    ],
)
def test_gradients(run: Iterator[Step], expected: Any) -> None:
    assert outcomes(NoGradient(), run)[-1] is expected


def test_a_margin_that_is_kept() -> None:
    run = [a_step(0, {"gradient/w": 0.1}, 0.3, Mode.TRAIN)]
    run += [a_step(at, {"gradient/w": 0.0}, 0.0, Mode.TRAIN) for at in range(1, 20)]
    assert outcomes(NoGradient(), run)[1:] == [NOT_APPLICABLE] * 19


def test_a_loss_that_was_always_zero() -> None:
    last = list(judged(NoGradient(), steps([(0.0, 0.0)] * 10, loss=0.0)))[-1]
    assert last.detail.endswith("were 0 in 10 consecutive saves, as was the loss")


@pytest.mark.parametrize(("loss", "named"), [(14.5, True), (3.0, False)])
def test_the_learning_rate_is_named_where_the_loss_has_risen(loss: float, named: bool) -> None:
    rate = Tensor("learning_rate", "worker_0", TensorSummary(mean=5.0), role=Role.LEARNING_RATE)
    run = [a_step(0, {"gradient/w": 0.1}, 2.3, Mode.TRAIN)]
    run += [a_step(at, {"gradient/w": 0.0}, loss, Mode.TRAIN) for at in range(1, 11)]
    run = [replace(each, tensors={**each.tensors, "rates": (rate,)}) for each in run]
    detail = list(judged(NoGradient(), run))[-1].detail
    told = "; the loss rose from 2.3 to 14.5: the learning rate of 5 is too large"
    assert (told in detail) is named


def test_two_optimizers_that_take_turns() -> None:
    """The actor gets no gradient; a save of the critic's does not take that back."""
    run = [
        a_step(at, {"gradient/critic": 0.1} if at % 2 else {"gradient/actor": 0.0}, 1.0, Mode.TRAIN)
        for at in range(20)
    ]
    verdicts = list(judged(NoGradient(), run))
    assert [each.outcome for each in verdicts[-3:]] == [UNDECIDED, VIOLATION, VIOLATION]
    assert (
        "saved with worker_0/gradient/actor were 0 in 10 consecutive saves" in verdicts[-1].detail
    )
