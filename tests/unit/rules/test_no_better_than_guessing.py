from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Mode, Outcome, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.skill._skill import add_batch, errors_and_baseline, score_batch, skill
from tocsin.rules.skill.no_better_than_guessing import NoBetterThanGuessing

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    outcomes,
    valued,
)

Array = NDArray[Any]


def step(at: int, labels: Array, predictions: Array, mode: Mode = Mode.EVAL) -> Step:
    read = {"labels": (valued("y", labels),), "predictions": (valued("p", predictions),)}
    return Step(at, mode, at, 0.0, {**read, "skills": (), "metrics": (), "biases": ()})


def numbers(knowledge: float, at: int, size: int = 64) -> tuple[Array, Array]:
    rng = np.random.default_rng(at)
    truth = rng.normal(3.0, 2.0, size)
    return truth, 3.0 + knowledge * (truth - 3.0) + 0.3 * rng.normal(size=size)


def classes(right: float, at: int, shares: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Any:
    """Labels, and one-hot scores that are right with that probability, else the commonest."""
    rng = np.random.default_rng(at)
    labels = rng.choice(len(shares), size=64, p=shares)
    guesses = np.where(rng.random(64) < right, labels, 0)
    return labels, np.eye(len(shares))[guesses] * 0.5


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([numbers(0.0, at) for at in range(10)], VIOLATION),
        ([numbers(0.6, at) for at in range(10)], HEALTHY),
        ([numbers(0.0, at) for at in range(7)], UNDECIDED),
        ([numbers(0.03 * at, at) for at in range(12)], HEALTHY),  # it is learning, slowly
        ([classes(0.0, at) for at in range(10)], VIOLATION),
        ([classes(0.8, at) for at in range(10)], HEALTHY),
        (
            [(np.zeros(8, int), np.ones((8, 2))) for _ in range(10)],
            NOT_APPLICABLE,
        ),  # a single class
        ([(np.full(8, 2.0), np.ones(8)) for _ in range(10)], NOT_APPLICABLE),  # a single number
        ([(np.arange(8.0), np.ones(7)) for _ in range(10)], NOT_APPLICABLE),
        ([(np.full(8, np.nan), np.ones(8)) for _ in range(10)], NOT_APPLICABLE),
        ([(np.zeros((0,)), np.zeros((0,))) for _ in range(10)], NOT_APPLICABLE),
        ([(np.array(["a"] * 4), np.zeros(4)) for _ in range(10)], NOT_APPLICABLE),
        ([(np.arange(128), np.eye(128)) for _ in range(10)], NOT_APPLICABLE),  # too many classes
    ],
)
def test_evaluations(batches: list[tuple[Array, Array]], expected: Outcome) -> None:
    steps = [step(at, *batch) for at, batch in enumerate(batches)]
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected


def test_a_rare_class_is_told_by_probabilities_not_by_hits() -> None:
    """Always the commonest class, but with a higher probability of the rare one where it is."""
    steps = []
    for at in range(10):
        labels = (np.random.default_rng(at).random(256) < 0.05).astype(int)
        rare = np.where(labels == 1, 0.4, 0.02)
        steps.append(step(at, labels, np.stack([1 - rare, rare], axis=1)))
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is HEALTHY


@pytest.mark.parametrize(("found", "expected"), [(0.8, HEALTHY), (0.3, VIOLATION)])
def test_a_rare_class_with_more_weight_costs_errors(found: float, expected: Outcome) -> None:
    """A third of the others are taken for the rare class, and a share of it is found."""
    steps = []
    for at in range(10):
        numbers = np.random.default_rng(at)
        labels = (numbers.random(256) < 0.05).astype(int)
        rare = numbers.random(256) < np.where(labels == 1, found, 0.33)
        steps.append(step(at, labels, np.where(rare, 0.9, 0.1)))
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected


def test_only_evaluations_with_skill_excuse_the_training() -> None:
    train = [step(at, *numbers(0.0, at), Mode.TRAIN) for at in range(40)]
    good = [step(at, *numbers(0.9, at)) for at in range(40, 50)]
    bad = [step(at, *numbers(0.0, at)) for at in range(40, 50)]
    rule = NoBetterThanGuessing()
    assert outcomes(rule, train)[-1] is VIOLATION
    assert outcomes(rule, [*train, *good])[-1] is HEALTHY
    assert outcomes(rule, [*good, *train])[-1] is HEALTHY
    assert outcomes(rule, [*bad, *train])[-1] is VIOLATION
    assert outcomes(rule, [bad[0], *train])[-1] is VIOLATION  # a single one says nothing


def test_batches_of_few_samples_are_too_little_to_judge_by() -> None:
    steps = [step(at, *numbers(0.0, at, size=2)) for at in range(12)]
    assert set(outcomes(NoBetterThanGuessing(), steps)) == {UNDECIDED}


def test_scores_of_a_ranking_have_no_level() -> None:
    steps = [step(at, *numbers(0.0, at)) for at in range(12)]
    metric = valued("train-ndcg", np.float64(0.6), role=Role.METRIC)
    steps = [replace(one, tensors={**one.tensors, "metrics": (metric,)}) for one in steps]
    assert set(outcomes(NoBetterThanGuessing(), steps)) == {NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("batches", "judged"),
    [
        ([numbers(0.0, at) for at in range(12)], False),
        ([classes(0.0, at) for at in range(12)], True),
    ],
)
def test_numbers_that_no_loss_compares_may_be_ranks(batches: Any, judged: bool) -> None:
    steps = []
    for at, (labels, scores) in enumerate(batches):
        found = step(at, labels, scores)
        read = {
            "labels": (valued("Twins_input_labels", labels),),
            "predictions": (valued("Twins_output_scores", scores),),
        }
        steps.append(replace(found, tensors={**found.tensors, **read}))
    assert (VIOLATION in outcomes(NoBetterThanGuessing(), steps)) is judged


@pytest.mark.parametrize(("kind", "judged"), [("scores", False), (None, True)])
def test_predictions_in_another_unit_than_the_labels(kind: str | None, judged: bool) -> None:
    steps = []
    for at in range(12):
        found = step(at, *numbers(0.0, at))
        given = tuple(replace(each, kind=kind) for each in found.tensors["predictions"])
        steps.append(replace(found, tensors={**found.tensors, "predictions": given}))
    assert (VIOLATION in outcomes(NoBetterThanGuessing(), steps)) is judged


def test_compared_losses_decide_from_the_first_of_them_on() -> None:
    steps = [step(at, *numbers(0.0, at)) for at in range(12)]
    skills = (valued("loss/skill", np.ones((1, 4))),)
    steps[2] = replace(steps[2], tensors={**steps[2].tensors, "skills": skills})
    assert set(outcomes(NoBetterThanGuessing(), steps)[2:]) == {UNDECIDED, NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("labels", "predictions", "hits"),
    [
        ([0, 1, 1], [0.2, 0.9, 0.1], 2),  # probabilities of class 1
        ([0, 1, 1], [-3.5, 2.5, 5.5], 3),  # scores of class 1
        ([0, 2, 1], [[1, 0, 0], [0, 0, 1], [1, 0, 0]], 2),
        ([[1, 0], [0, 1]], [[0.9, 0.1], [0.9, 0.1]], 1),  # one-hot labels
        ([[0, 1], [1, 0]], [[[9, 1], [1, 9]], [[1, 9], [1, 9]]], 3),  # a class for each token
    ],
)
def test_hits(labels: Any, predictions: Any, hits: int) -> None:
    found = score_batch(np.array(labels), np.array(predictions, float))
    assert found is not None
    assert sum(found.hits.values()) == hits
    assert 0 <= found.cross_entropy < 17 * found.samples


def test_skill_is_r_squared_of_numbers() -> None:
    truth, guesses = numbers(0.6, 1)
    batch = score_batch(truth, guesses)
    assert batch is not None
    past = add_batch({}, batch)
    assert past is not None
    expected = 1 - np.mean((guesses - truth) ** 2) / np.var(truth)
    assert skill([errors_and_baseline(past, batch)]) == pytest.approx(expected, abs=1e-5)


def test_skill_of_a_perfect_classifier_is_one() -> None:
    labels = np.array([0, 1, 2, 0])
    batch = score_batch(labels, np.eye(3)[labels])
    assert batch is not None
    past = add_batch({}, batch)
    assert past is not None
    assert skill([errors_and_baseline(past, batch)]) == pytest.approx(1.0, abs=1e-5)


def accuracies(numbers: list[float], mode: Mode = Mode.EVAL, classes: int = 10) -> list[Step]:
    """A run that records losses and accuracies only, and weights."""
    bias = Tensor("fc.bias", "worker_0", TensorSummary(size=classes), role=Role.BIAS)
    hidden = Tensor("hidden.bias", "worker_0", TensorSummary(size=64), role=Role.BIAS)
    empty = {"labels": (), "predictions": (), "skills": (), "biases": (bias, hidden)}
    return [
        Step(at, mode, at, 0.0, {
            **empty,
            "metrics": (
                Tensor("val_loss", "worker_0", TensorSummary(mean=2.3), role=Role.METRIC),
                Tensor("val_acc", "worker_0", TensorSummary(mean=each), role=Role.METRIC),
            ),
        })
        for at, each in enumerate(numbers)
    ]  # fmt: skip


AROUND = [0.1 + 0.01 * (-1) ** at for at in range(40)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (accuracies(AROUND), VIOLATION),
        (accuracies(AROUND, Mode.TRAIN), VIOLATION),
        (accuracies(AROUND[:7]), UNDECIDED),
        (accuracies(AROUND, classes=20), HEALTHY),  # twice chance
        (accuracies([0.1, 0.5, *[0.6] * 20]), HEALTHY),
        (accuracies([0.3] * 20), HEALTHY),  # hard, and learned before the first save
        (accuracies([0.5] * 20, classes=1), VIOLATION),
        (accuracies([0.1] * 20 + [0.4] * 20), HEALTHY),  # a late start
    ],
)
def test_a_recorded_accuracy_at_chance(steps: list[Step], expected: Outcome) -> None:
    """However far the loss fell to get there."""
    assert judged(NoBetterThanGuessing(), steps)[-1].outcome is expected


def epochs(rows: list[dict[str, float]]) -> list[Step]:
    """A history: no labels, no biases."""
    return [
        Step(
            at,
            Mode.GLOBAL,
            at,
            0.0,
            {
                **dict.fromkeys(("labels", "predictions", "skills", "biases"), ()),
                "metrics": tuple(
                    Tensor(name, "worker_0", TensorSummary(mean=value), role=Role.METRIC)
                    for name, value in row.items()
                    if name != "loss"
                ),
                "losses": (
                    Tensor("loss", "worker_0", TensorSummary(mean=row["loss"]), role=Role.LOSS),
                ),
            },
        )
        for at, row in enumerate(rows)
    ]


def epoch(loss: float, accuracy: float, val_loss: float, val_accuracy: float) -> dict[str, float]:
    names = ("loss", "accuracy", "val_loss", "val_accuracy")
    return dict(zip(names, (loss, accuracy, val_loss, val_accuracy), strict=True))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([epoch(2.31, 0.099, 2.303, 0.1)] * 8, VIOLATION),
        ([epoch(0.694, 0.51, 0.6931, 0.5)] * 8, VIOLATION),
        ([epoch(2.31, 0.099, 2.303, 0.1)] * 7, UNDECIDED),
        ([epoch(2.3 * 0.8**at, 1 - 0.9**at, 2.32, 0.1) for at in range(12)], VIOLATION),
        ([epoch(1.4, 0.5, 1.41, 0.5)] * 12, HEALTHY),  # five of ten classes
        ([epoch(0.673, 0.6, 0.673, 0.6)] * 12, HEALTHY),  # the most frequent class
        ([epoch(0.1, 0.97, 0.12, 0.96)] * 12, NOT_APPLICABLE),
        ([epoch(8.1, 0.5, 8.1, 0.5)] * 12, NOT_APPLICABLE),
        ([epoch(2.3, 0.1, 2.3, 0.1)] * 10 + [epoch(1.0, 0.6, 1.1, 0.6)] * 6, HEALTHY),
    ],
)
def test_an_accuracy_beside_the_loss_of_a_guess(
    rows: list[dict[str, float]], expected: Outcome
) -> None:
    """The loss shows how many classes there are, and evaluations are judged if there are any."""
    assert judged(NoBetterThanGuessing(), epochs(rows))[-1].outcome is expected


@pytest.mark.parametrize(
    ("name", "areas", "expected"),
    [
        ("validation-auc", [0.5] * 12, VIOLATION),
        ("val_roc_auc", [0.3 - 0.01 * at for at in range(12)], VIOLATION),  # labels turned
        ("validation-auc", [0.5] * 7, UNDECIDED),
        ("validation-auc", [0.5] * 11 + [0.52], HEALTHY),
        ("validation-auc", [0.6, *[0.4] * 20], HEALTHY),
        ("validation-aucpr", [0.1] * 12, NOT_APPLICABLE),  # its chance is another
        ("val_pr_auc", [0.1] * 12, NOT_APPLICABLE),
        ("val_auc", [0.1] * 12, NOT_APPLICABLE),  # of which curve?
        ("train-auc", [0.5] * 12, NOT_APPLICABLE),
        ("validation-auc", [0.0] * 12, NOT_APPLICABLE),  # of one class
        ("validation-auc", [float("nan")] * 12, NOT_APPLICABLE),
        ("validation-auc", [50.0] * 12, NOT_APPLICABLE),  # percent
    ],
)
def test_an_area_that_is_never_above_chance(
    name: str, areas: list[float], expected: Outcome
) -> None:
    empty: Any = {"labels": (), "predictions": (), "skills": (), "biases": ()}
    steps = []
    for at, area in enumerate(areas):
        metric = Tensor(name, "worker_0", TensorSummary(mean=area), role=Role.METRIC)
        steps.append(Step(at, Mode.TRAIN, at, 0.0, {**empty, "metrics": (metric,)}))
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected


def bare(
    evaluated: Iterable[float], first: float = 1.8, classes: int = 6, sums_up: bool = True
) -> Iterator[Step]:
    """Losses and gradients, without labels: an evaluation after every hundred steps."""
    step = 0
    for number, loss in enumerate([*evaluated, None]):
        for at in range(10 if loss else 1):
            value = first if not number else 0.1
            trained = Tensor("loss", "worker_0", TensorSummary(mean=value), role=Role.LOSS)
            mean = 0.0 if sums_up else 0.02
            of_bias = TensorSummary(size=classes, mean=mean, abs_mean=0.1, min=-0.3, max=0.2)
            large = TensorSummary(size=classes * 8, mean=0.1, abs_mean=0.1, min=-3.0, max=3.0)
            gradients = tuple(
                Tensor(name, "worker_0", each, role=Role.GRADIENT)
                for name, each in (("gradient/weight", large), ("gradient/bias", of_bias))
            )
            found = {"losses": (trained,), "gradients": gradients}
            yield Step(step, Mode.TRAIN, 100 * number + 10 * at, 0.0, NOTHING | found)
            step += 1
        if loss:
            tensor = Tensor("loss", "worker_0", TensorSummary(mean=loss), role=Role.LOSS)
            yield Step(step, Mode.EVAL, number, 0.0, NOTHING | {"losses": (tensor,)})
            step += 1


NOTHING: dict[str, tuple[Tensor, ...]] = dict.fromkeys(
    ("labels", "predictions", "skills", "metrics", "losses", "biases"), ()
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (bare([2.0, 1.79, 3.0, 2.5, 1.8]), VIOLATION),
        (bare([2.0, 1.6, 1.7, 1.6, 1.7, 3.0, 2.5, 1.8]), HEALTHY),  # once it was better
        (bare([1.79, 1.81, 1.75, 1.8, 1.79, 1.82]), VIOLATION),  # the noise of a batch
        (bare([1.72, 1.81, 1.78, 1.85, 1.83]), VIOLATION),  # three are no four
        (bare([1.79, 1.81, 1.78, 1.8, 1.79], first=37.0), VIOLATION),  # it comes to rest there
        (bare([2.0, 1.79, 3.0]), UNDECIDED),
        (bare([2.0] * 5, sums_up=False), NOT_APPLICABLE),  # of other scores than a softmax's
        (bare([2.0] * 5, first=18.0), NOT_APPLICABLE),  # a sum, or a weight
        (bare([2.0] * 5, classes=1), NOT_APPLICABLE),
    ],
)
def test_evaluations_beside_a_guess_between_classes(
    steps: Iterator[Step], expected: Outcome
) -> None:
    assert outcomes(NoBetterThanGuessing(), steps)[-1] is expected


def test_an_accuracy_says_more_than_the_loss_of_an_evaluation() -> None:
    """A model that is too sure of itself."""
    summary = TensorSummary(mean=0.6)
    right = {"metrics": (Tensor("val_accuracy", "worker_0", summary, role=Role.METRIC),)}
    steps = (
        replace(step, tensors=step.tensors | right) if step.mode is Mode.EVAL else step
        for step in bare([2.4, 2.5, 2.8, 3.1, 3.2])
    )
    assert VIOLATION not in outcomes(NoBetterThanGuessing(), steps)
