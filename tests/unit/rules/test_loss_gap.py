from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pytest
from tocsin.model import Mode, Outcome, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.evaluation.loss_gap import LossGap

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    outcomes,
)


def run(
    train: float, evaluated: list[float], samples: int = 64, skill: float = 0.1
) -> Iterator[Step]:
    """An evaluation of four batches after every 50 training steps; a guess has the loss 2."""
    trained = list(comparisons(noisy(train, 50 * len(evaluated))))
    for at, step in enumerate(trained):
        yield without_losses(step)
        if at % 5 == 4:
            loss = evaluated[at // 5]
            shown = {"loss": loss, "samples": samples, "mode": Mode.EVAL, "site": "other"}
            yield from map(without_losses, comparisons(noisy(skill, 4), 4, **shown))


def without_losses(step: Step) -> Step:
    return replace(step, tensors={**step.tensors, "losses": ()})


@pytest.mark.parametrize(
    ("train", "evaluated", "samples", "expected"),
    [
        (0.8, [9.0] * 10, 64, VIOLATION),
        (0.8, [1.0] * 10, 64, HEALTHY),
        (0.8, [1.9] * 10, 64, VIOLATION),  # a sixteenth of what training has won
        (0.8, [1.0] * 5 + [9.0] * 5, 64, HEALTHY),  # it overfits
        (0.8, [9.0] * 5 + [1.0] * 5, 64, HEALTHY),  # it generalises late
        (0.8, [1.45] * 10, 64, HEALTHY),  # two fifths
        (0.99, [1.45] * 10, 64, HEALTHY),  # of all that there is to learn, with skill
        (0.8, [1.8, 1.8, 1.8, 1.9, 2.1, 2.3, 2.5, 2.7, 2.9, 3.1], 64, HEALTHY),  # it overfits
        (0.8, [1.9] * 5 + [2.0] * 5, 64, VIOLATION),  # it rises by less than Overfit asks for
        (0.99, [1.1] * 10, 64, HEALTHY),
        (0.99, [1.45] * 5 + [1.1] * 5, 64, HEALTHY),
        (0.0, [9.0] * 10, 64, HEALTHY),  # nothing learned in TRAIN either
        (0.8, [9.0] * 10, 2, UNDECIDED),
    ],
)
def test_courses(train: float, evaluated: list[float], samples: int, expected: Outcome) -> None:
    assert outcomes(LossGap(), run(train, evaluated, samples))[-1] is expected


@pytest.mark.parametrize(("skill", "expected"), [(0.0, VIOLATION), (0.1, HEALTHY)])
def test_more_is_asked_of_evaluations_without_skill(skill: float, expected: Outcome) -> None:
    """Training has memorised its labels, and evaluations win two fifths of that."""
    assert outcomes(LossGap(), run(0.99, [1.45] * 20, skill=skill))[-1] is expected


def test_losses_whose_best_constant_is_unknown() -> None:
    """They are judged beside the loss of the untrained model."""
    compared = comparisons(noisy(0.8, 300), constant=float("nan"))
    both = [
        replace(step, tensors={**each.tensors, "losses": step.tensors["losses"]})
        for step, each in zip(losses_alone(FALLS, [3.0] * 12), cycle(list(compared)))
    ]
    assert outcomes(LossGap(), both)[-1] is VIOLATION


def test_it_says_both() -> None:
    detail = judged(LossGap(), run(0.8, [9.0] * 10))[-1].detail or ""
    assert "below that of a constant prediction; evaluation loss is" in detail
    assert "above it, and was never better" in detail


def losses_alone(train: list[float], evaluated: list[float], before: int = 0) -> Iterator[Step]:
    """A training loss every 10 steps, and an evaluation after every third of them."""
    for at, loss in enumerate(train):
        mode_step = before + 10 * at
        yield with_loss(loss, mode_step + at // 3, Mode.TRAIN, mode_step)
        if at % 3 == 2:
            yield with_loss(evaluated[at // 3], mode_step + at // 3 + 1, Mode.EVAL, at // 3)


def with_loss(loss: float, step: int, mode: Mode, mode_step: int) -> Step:
    tensor = Tensor("loss", "worker_0", TensorSummary(mean=loss), role=Role.LOSS)
    return Step(step, mode, mode_step, 0.0, {"losses": (tensor,), "skills": ()})


FALLS = [2.0, 1.9, 1.8] + [0.5] * 31


@pytest.mark.parametrize(
    ("train", "evaluated", "before", "expected"),
    [
        (FALLS, [3.0] * 11, 0, VIOLATION),
        (FALLS, [3.0] * 5 + [1.9] * 6, 0, VIOLATION),  # next to nothing
        (FALLS, [3.0] * 5 + [1.5] * 6, 0, HEALTHY),  # better than at the start: it overfits
        ([2.0, 1.9, 1.8] + [0.05] * 31, [1.4] * 11, 0, VIOLATION),  # by heart
        ([2.0, 1.9, 1.8] + [0.05] * 31, [1.1] * 11, 0, HEALTHY),
        ([2.0, 1.9, 1.8] + [0.05] * 31, [1.4, 1.4, 1.4, *[2.0] * 8], 0, HEALTHY),  # it overfits
        (FALLS, [9.0, 8.0, 4.0] + [3.0] * 8, 0, HEALTHY),  # in another unit
        (FALLS, [3.0] * 11, 100, UNDECIDED),  # the start was not seen
        ([2.0] * 34, [2.0, 1.99, 2.01] * 4, 0, HEALTHY),  # nothing learned in training either
        ([2.0] * 3 + [1.7] * 31, [2.0, 1.99, 2.01] * 4, 0, VIOLATION),
        ([2.0] * 34, [2.0 - 0.001 * at for at in range(11)], 0, HEALTHY),  # but slowly
        ([2.0] * 34, [1.9, 1.89, 1.91] * 4, 0, HEALTHY),  # something
        ([0.1] * 3 + [0.5] * 31, [3.0, 1.0] + [0.5] * 9, 0, HEALTHY),  # the first lessons were easy
        ([0.5] * 3 + [1.8] * 31, [1.2, 1.5, 1.7] + [1.8] * 8, 0, HEALTHY),  # of an autoencoder
        ([-each for each in FALLS], [3.0] * 11, 0, UNDECIDED),
        (FALLS[:10], [3.0] * 3, 0, UNDECIDED),
    ],
)
def test_losses_alone(
    train: list[float], evaluated: list[float], before: int, expected: Outcome
) -> None:
    assert outcomes(LossGap(), losses_alone(train, evaluated, before))[-1] is expected


def test_a_history_of_epochs_has_no_start() -> None:
    steps = []
    for epoch, loss in enumerate(FALLS):
        trained = with_loss(loss, epoch, Mode.TRAIN, epoch * 20)
        value = Tensor("val_loss", "worker_0", TensorSummary(mean=3.0), role=Role.LOSS)
        both = {"losses": (*trained.tensors["losses"], value), "skills": ()}
        steps.append(replace(trained, tensors=both))
    assert set(outcomes(LossGap(), steps)) <= {UNDECIDED, NOT_APPLICABLE}


def boosted(
    evaluated: list[float], trained: list[float] | None = None, first: int = 0
) -> Iterator[Step]:
    """Rounds of XGBoost: each is a step with its own evaluation."""
    gain = Tensor("feature_importance/gain", "worker_0", TensorSummary(size=3))
    for at, value in enumerate(evaluated):
        named = {"validation-rmse": value} | ({"train-rmse": trained[at]} if trained else {})
        losses = tuple(
            Tensor(name, "worker_0", TensorSummary(mean=loss), role=Role.LOSS)
            for name, loss in named.items()
        )
        found = {"losses": losses, "skills": (), "trees": (gain,)}
        yield Step(first + at, Mode.TRAIN, first + at, 0.0, found)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (boosted([2.0] * 20), VIOLATION),
        (boosted([2.0, 1.97, *[1.99] * 20]), VIOLATION),
        (boosted([2.0] * 20, [2 * 0.8**at for at in range(20)]), VIOLATION),
        (boosted([2.0 * 0.9**at for at in range(20)]), HEALTHY),
        (boosted([2.0, 1.5, *[3.0] * 20]), HEALTHY),  # it overfits: Overfit judges that
        (boosted([2.0 * 0.9995**at for at in range(30)]), UNDECIDED),  # slow
        (boosted([2.0 * 0.9999**at for at in range(120)]), VIOLATION),  # too slow
        (boosted([2.0, 1.9, *[1.95] * 20], [0.8**at for at in range(22)]), VIOLATION),  # by heart
        (boosted([2.0, 1.9, *[1.95] * 20], [0.95**at for at in range(22)]), HEALTHY),
        (boosted([2.0, 1.7, *[1.75] * 20], [0.8**at for at in range(22)]), HEALTHY),
        (boosted([9.0, 8.5, 8.6] * 7, [0.99**at for at in range(21)]), VIOLATION),  # other labels
        (boosted([9.0, 8.5, 8.6] * 7, [0.96**at for at in range(21)]), VIOLATION),
        (boosted([9.0, 8.5, 8.6] * 7, [1.0, 0.5, *[0.2] * 19]), HEALTHY),  # deep, fast trees
        (boosted([9.0, 8.0, 7.9] * 7, [0.99**at for at in range(21)]), HEALTHY),  # it falls
        (boosted([2.0] * 5), UNDECIDED),
        (boosted([2.0] * 20, first=40), NOT_APPLICABLE),  # the first round was not seen
        (boosted([float("nan")] * 20), NOT_APPLICABLE),
        (boosted([-1.0] * 20), NOT_APPLICABLE),
    ],
)
def test_boosted_trees(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(LossGap(), steps)[-1] is expected


def test_a_share_of_errors_may_stay_while_the_loss_falls() -> None:
    steps = []
    for step in boosted([2.0 * 0.97**at for at in range(50)]):
        share = Tensor("validation-merror", "worker_0", TensorSummary(mean=0.5), role=Role.LOSS)
        losses = (share, *step.tensors["losses"])
        steps.append(replace(step, tensors={**step.tensors, "losses": losses}))
    assert set(outcomes(LossGap(), steps)) <= {UNDECIDED, HEALTHY}
