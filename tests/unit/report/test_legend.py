"""Curves have the shortest names that tell them apart, and equal ones are drawn once."""

from __future__ import annotations

import pytest
from tocsin.evaluation import Trace
from tocsin.evaluation.trace import Point
from tocsin.report.curves import traced_curves
from tocsin.report.legend import labelled
from tocsin.report.parts import Curve, Phase


def curve(phase: Phase, measure: str, worker: str = "w0", at: float = 0.0, name: str = "") -> Curve:
    return Curve(
        name=name or measure,
        mode=phase.upper() or "GLOBAL",
        worker=worker,
        kind="loss",
        x=[0, 1],
        y=[at, at + 1.0],
        phase=phase,
        measure=measure,
    )


@pytest.mark.parametrize(
    ("curves", "labels"),
    [
        ([curve("train", "loss")], ["train"]),
        ([curve("train", "loss"), curve("eval", "loss", at=1)], ["train", "eval"]),
        (
            [curve("train", "loss", "w0"), curve("train", "loss", "w1", at=1)],
            ["train w0", "train w1"],
        ),
        (
            [curve("train", "nll"), curve("train", "kl", at=1), curve("eval", "nll", at=2)],
            ["train nll", "train kl", "eval nll"],
        ),
        (
            [curve("eval", "rmse", name="val-rmse"), curve("eval", "rmse", at=1, name="test-rmse")],
            ["val-rmse", "test-rmse"],
        ),
        (
            [curve("", "cpu/busiest"), curve("", "memory/used", at=1)],
            ["cpu/busiest", "memory/used"],
        ),
    ],
)
def test_a_label_is_as_short_as_tells_curves_apart(curves: list[Curve], labels: list[str]) -> None:
    assert [each.label for each in labelled(curves)] == labels


@pytest.mark.parametrize(
    ("second", "label"),
    [
        (curve("eval", "loss"), "train = eval"),
        (curve("train", "loss", "w1"), "train = w1"),
        (curve("train", "objective"), "train = objective"),
    ],
)
def test_equal_curves_are_drawn_once(second: Curve, label: str) -> None:
    first, repeated = labelled([curve("train", "loss"), second])

    assert (first.label, first.repeats) == (label, False)
    assert repeated.repeats


def test_the_third_equal_curve_is_counted() -> None:
    curves = labelled([curve("train", "loss", f"w{at}") for at in range(4)])

    assert curves[0].label == "train = w1 and 2 more"
    assert [each.repeats for each in curves] == [False, True, True, True]


@pytest.mark.parametrize(
    ("mode", "name", "expected"),
    [
        ("TRAIN", "loss", ("train", "loss")),
        ("EVAL", "loss", ("eval", "loss")),
        ("TRAIN", "val_loss", ("eval", "loss")),
        ("GLOBAL", "train-logloss", ("train", "logloss")),
        ("GLOBAL", "validation-logloss", ("eval", "logloss")),
        ("PREDICT", "loss", ("predict", "loss")),
    ],
)
def test_phase_and_measure(mode: str, name: str, expected: tuple[str, str]) -> None:
    trace = Trace()
    trace.extend(Point(("loss", mode, name, "w0"), step, value=float(step)) for step in (0, 1))

    (found,) = traced_curves(trace, [])

    assert (found.phase, found.measure) == expected
