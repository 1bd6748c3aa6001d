from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Severity, TensorSummary, Verdict
from tocsin.rules import Rule, State, Step, Tensor

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    made,
    outcomes,
)

RNG = np.random.default_rng(0)
rule = partial(made, "ClassImbalance")


def tensors(read: str, *values: Any, worker: str = "worker_0") -> tuple[Tensor, ...]:
    arrays = [np.asarray(value) for value in values]
    return tuple(Tensor(read, worker, TensorSummary(), a.shape, value=a) for a in arrays)


def step(number: int, labels: Any = None, predictions: Any = None, mode: Mode = Mode.TRAIN) -> Step:
    found = {
        "labels": () if labels is None else tensors("labels", labels),
        "predictions": () if predictions is None else tensors("predictions", predictions),
    }
    return Step(number, mode, number, 0.0, found)


def last(rule: Rule, steps: Iterable[Step]) -> Verdict:
    return judged(rule, steps)[-1]


def split(*counts: int) -> np.ndarray[Any, Any]:
    return RNG.permutation(np.repeat(np.arange(len(counts)), counts))


def test_the_split_of_amazons_own_test() -> None:
    """990 to 10, in batches of 100: at the first step with enough labels."""
    labels = split(990, 10)
    steps = [step(at, labels[100 * at : 100 * at + 100]) for at in range(10)]
    assert outcomes(rule("sagemaker"), steps)[:5] == [UNDECIDED] * 4 + [VIOLATION]
    verdict = last(rule("recommended"), steps)
    assert (verdict.outcome, verdict.reason) == (VIOLATION, Reason.IMBALANCED)
    least, *counts = verdict.evidence.items()
    assert least == ("least_ratio", pytest.approx(58.6, rel=0.5))
    assert dict(counts) == {"ratio": 99.0, "most": 990, "least": 10}
    assert verdict.detail == (
        "990 labels of labels are of class 0, but 10 of class 1: more than 10 times as many"
    )


@pytest.mark.parametrize(
    ("labels", "sagemaker", "recommended"),
    [
        (split(500, 500), HEALTHY, HEALTHY),
        (split(1000, 100), HEALTHY, HEALTHY),  # 10 times as many are not more than 10 times
        (split(1000, 99), VIOLATION, HEALTHY),  # chance may do that
        (split(2000, 100), VIOLATION, VIOLATION),
        (split(1000, 2), VIOLATION, VIOLATION),
        (split(1000), HEALTHY, HEALTHY),  # one class has nothing to be compared with
        (RNG.integers(20, size=500), None, HEALTHY),  # twenty classes, drawn alike
        (RNG.integers(100, size=500), None, NOT_APPLICABLE),  # so many are words or places
        (split(900, 100).astype(float), HEALTHY, HEALTHY),
        (split(990, 10).astype(np.float32), VIOLATION, VIOLATION),
        (split(990, 10).astype(bool), VIOLATION, VIOLATION),
        (split(990, 10).astype(np.uint8)[:, None], VIOLATION, VIOLATION),
        (split(990, 10) - 1, VIOLATION, VIOLATION),
        (np.eye(2)[split(990, 10)], VIOLATION, VIOLATION),  # one-hot
        (np.ones((600, 4)), NOT_APPLICABLE, NOT_APPLICABLE),  # many labels to a sample
        (RNG.normal(size=1000), NOT_APPLICABLE, NOT_APPLICABLE),
        (RNG.integers(101, 1000, size=1000), NOT_APPLICABLE, NOT_APPLICABLE),
        (np.zeros((4, 64, 64), np.int64), NOT_APPLICABLE, NOT_APPLICABLE),  # a mask
        (np.full(600, np.nan), NOT_APPLICABLE, NOT_APPLICABLE),
        (np.full(600, np.inf), NOT_APPLICABLE, NOT_APPLICABLE),
        (np.array(["cat"] * 600), NOT_APPLICABLE, NOT_APPLICABLE),
        (np.array([]), NOT_APPLICABLE, NOT_APPLICABLE),
        (np.array(3), UNDECIDED, UNDECIDED),
        (np.array([2**63 - 1] * 990 + [-(2**63)] * 10), VIOLATION, VIOLATION),
    ],
)
def test_labels_of_one_step(
    labels: np.ndarray[Any, Any], sagemaker: Outcome | None, recommended: Outcome
) -> None:
    if sagemaker is not None:
        assert last(rule("sagemaker"), [step(0, labels)]).outcome is sagemaker
    assert last(rule("recommended"), [step(0, labels)]).outcome is recommended


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (None, VIOLATION),
        ("ignore_index=0", HEALTHY),  # padding
        ("ignore_index=1", VIOLATION),
        ("ignore_index=7", VIOLATION),
        ("ignore_index=" + "9" * 5000, VIOLATION),
        ("ignore_index=x", VIOLATION),
    ],
)
def test_labels_that_the_loss_ignores_do_not_count(kind: str | None, expected: Outcome) -> None:
    padded = split(9900, 300, 270)
    step_of = step(0, padded)
    labels = tuple(replace(each, kind=kind) for each in step_of.tensors["labels"])
    steps = [replace(step_of, tensors={"labels": labels, "predictions": ()})]
    assert last(rule("recommended"), steps).outcome is expected


@pytest.mark.parametrize("weights", ["weighted", "weighted ignore_index=7"])
def test_no_finding_where_the_loss_has_weights(weights: str) -> None:
    steps = [replaced(step(at, split(990, 10)), kind=weights) for at in range(3)]
    assert outcomes(rule(), steps) == [NOT_APPLICABLE] * 3


def replaced(step_of: Step, **changes: Any) -> Step:
    labels = tuple(replace(each, **changes) for each in step_of.tensors["labels"])
    return replace(step_of, tensors={**step_of.tensors, "labels": labels})


@pytest.mark.parametrize(
    ("begin", "predictions", "expected"),
    [
        (300, lambda y: y * 0, Severity.WARNING),  # only the frequent class
        (200, lambda y: y * 0, None),  # too early
        (300, lambda y: y, None),
        (300, lambda y: y * (RNG.random(len(y)) < 0.1), None),  # one in ten is found
        (300, lambda y: 1 - y, Severity.WARNING),
        (300, lambda y: y[:7], None),  # of other samples
    ],
)
def test_a_rare_class_that_is_never_predicted_is_a_warning(
    begin: int, predictions: Any, expected: Severity | None
) -> None:
    steps = []
    for at in range(begin, begin + 40):
        labels = split(95, 5)
        steps.append(step(at, labels, predictions(labels)))
    verdict = last(rule(), steps)
    assert (verdict.outcome, verdict.severity) == (VIOLATION, expected)
    says = "and none of the last 200 labels of class 1 was predicted" in verdict.detail
    assert says is (expected is not None)


def test_a_rare_class_that_is_no_longer_predicted() -> None:
    """Right predictions of the first steps, by chance, do not hide it."""
    batches = [split(95, 5) for _ in range(80)]
    steps = [step(at + 300, y, y if at < 40 else y * 0) for at, y in enumerate(batches)]
    verdicts = judged(rule(), steps)
    assert [v.severity for v in verdicts][39:51] == [None] * 10 + [Severity.WARNING] * 2


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [
        (None, VIOLATION),
        (RNG.random(1000), VIOLATION),  # probabilities of class 1
        (RNG.normal(size=(1000, 1)), VIOLATION),  # scores
        (RNG.normal(size=(1000, 2)), VIOLATION),
        (np.full(1000, np.nan), NOT_APPLICABLE),
        (RNG.normal(size=7), VIOLATION),  # of other samples
        (RNG.normal(size=(1000, 3, 2)), VIOLATION),  # not what the labels are about
    ],
)
def test_predictions_beside_imbalanced_labels(predictions: Any, expected: Outcome) -> None:
    assert last(rule(), [step(0, split(990, 10), predictions)]).outcome is expected


def test_whole_numbers_that_a_regression_predicts_are_not_classes() -> None:
    labels = split(10, 900, 500, 10).astype(float)
    steps = [step(at, labels, labels + RNG.normal(size=len(labels))) for at in range(3)]
    assert set(outcomes(rule(), steps)) == {NOT_APPLICABLE}


def test_workers_are_counted_together() -> None:
    found = {
        "labels": tensors("labels", split(300, 4)) + tensors("l", split(4, 300), worker="worker_1"),
        "predictions": (),
    }
    assert last(rule(), [Step(0, Mode.TRAIN, 0, 0.0, found)]).outcome is HEALTHY


@pytest.mark.parametrize(
    ("predictions", "profile", "parameters", "expected"),
    [
        (lambda y: y, "sagemaker", {}, HEALTHY),
        (lambda y: 1 - y, "sagemaker", {}, VIOLATION),
        (lambda y: 1 - y, "recommended", {}, HEALTHY),  # not judged
        (lambda y: 1 - y, "recommended", {"threshold_misprediction": "0.7"}, VIOLATION),
        (lambda y: y * 0, "sagemaker", {}, VIOLATION),  # class 1 always
        (lambda y: y * 0, "sagemaker", {"threshold_misprediction": 1}, HEALTHY),
        (lambda y: 0.1 + 0.8 * y, "sagemaker", {}, HEALTHY),
        (lambda y: 0.9 - 0.8 * y, "sagemaker", {}, VIOLATION),
        (lambda y: 20.0 * y - 9.5, "sagemaker", {}, HEALTHY),  # scores
        (lambda y: np.eye(2)[y] * 0.6, "sagemaker", {}, HEALTHY),
        (lambda y: np.eye(2)[1 - y] * 0.6, "sagemaker", {"argmax": "True"}, VIOLATION),
        (lambda y: np.eye(2)[1 - y] * 0.6, "sagemaker", {"argmax": "False"}, VIOLATION),
        (lambda y: y[:7], "sagemaker", {}, HEALTHY),  # of other samples
    ],
)
def test_mispredictions(
    predictions: Any, profile: str, parameters: dict[str, Any], expected: Outcome
) -> None:
    labels = split(300, 300)
    verdict = last(rule(profile, **parameters), [step(0, labels, predictions(labels))])
    assert verdict.outcome is expected
    if expected is VIOLATION:
        assert verdict.reason is Reason.ABOVE_THRESHOLD
        assert verdict.evidence["mispredicted"] == 1.0


def test_few_samples_of_a_class_prove_no_misprediction() -> None:
    labels = split(300, 3)
    tolerant = rule(threshold_misprediction=0.7, threshold_imbalance=1e9)
    assert last(tolerant, [step(0, labels, labels * 0)]).outcome is HEALTHY
    steps = [step(at, labels, labels * 0) for at in range(20)]
    assert last(tolerant, steps).outcome is VIOLATION


def test_too_many_classes_stay_too_many() -> None:
    steps = [step(at, (np.arange(64) + 64 * at) * 10**13) for at in range(20)]
    assert outcomes(rule(), [*steps, step(20, [0] * 64)])[1:] == [NOT_APPLICABLE] * 20
    state: State = {}
    for each in steps:
        state, _ = rule().evaluate(state, each)
    assert len(msgspec.json.encode(state)) < 8192


def test_old_labels_fade() -> None:
    begin = [step(at, split(990, 10)) for at in range(5)]
    later = [step(at, split(500, 500)) for at in range(5, 40)]
    found = outcomes(rule(), [*begin, *later])
    assert (found[0], found[-1]) == (VIOLATION, HEALTHY)


@pytest.mark.parametrize(
    ("classes", "batch", "saves"),
    [(2, 8, 400), (10, 32, 100), (100, 32, 300), (50, 4, 500), (3, 256, 50)],
)
def test_fair_draws_stay_quiet(classes: int, batch: int, saves: int) -> None:
    steps = [step(at, RNG.integers(classes, size=batch)) for at in range(saves)]
    assert VIOLATION not in outcomes(rule(), steps)


def test_ignored_labels_are_not_a_class() -> None:
    """Padding and parts of words, as token classification has them."""
    labels = np.concatenate([np.full(5000, -100), split(300, 300)])
    assert last(rule("sagemaker"), [step(0, labels)]).outcome is HEALTHY
    assert last(rule("sagemaker"), [step(0, np.full(600, -100))]).outcome is not VIOLATION


@pytest.mark.parametrize("profile", ["sagemaker", "recommended"])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.r_[np.full(5000, -1), split(300, 300)], HEALTHY),  # without a label
        (np.r_[np.full(5000, -1), split(990, 10)], VIOLATION),
        (np.r_[np.full(5000, -1), split(60, 60)], UNDECIDED),  # few have one
        (2 * split(990, 10) - 1, VIOLATION),  # −1 and 1 are two classes
    ],
)
def test_labels_below_zero(profile: str, labels: np.ndarray[Any, Any], expected: Outcome) -> None:
    assert last(rule(profile, samples=200), [step(0, labels)]).outcome is expected
