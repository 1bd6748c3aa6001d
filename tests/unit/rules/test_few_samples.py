from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import ACTING, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.data.few_samples import FewSamples

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, judged, outcomes

KEPT = 64


def loss(value: float, kind: str | None = None) -> Tensor:
    return Tensor("loss", "worker_0", TensorSummary(mean=value), role=Role.LOSS, kind=kind)


def samples(value: Any) -> Tensor:
    array = np.asarray(value, float)
    return Tensor("samples", "worker_0", TensorSummary(), array.shape, "float64", value=array)


def run(
    different: int,
    saves: int = 60,
    batch: int = 32,
    elements: int = 20,
    held: float | None = None,
    kind: str | None = None,
    new_from: int = 10_000,
    labels: int = 1,
) -> Iterator[Step]:
    """Every tenth step is saved, with what the ten steps drew; ``held``: a loss in evaluations."""
    draw = np.random.default_rng(0)
    hashes = draw.random(different)
    for at in range(saves):
        known = hashes if at < new_from else draw.random(4000)
        drawn = np.unique(draw.choice(known, 10 * batch))[:KEPT]
        found = {
            "samples": (samples([10, 10 * batch, elements, *drawn]),),
            "losses": (loss(0.1, kind),),
            "labels": (Tensor("y", "worker_0", TensorSummary(size=labels * batch)),),
        }
        yield Step(10 * at, Mode.TRAIN, 10 * at, float(at), found)
        if held is not None and at % 5 == 4:
            evaluated = {"samples": (), "losses": (loss(held),), "labels": ()}
            yield Step(10 * at + 1, Mode.EVAL, at // 5, float(at), evaluated)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run(40), VIOLATION),
        (run(90), VIOLATION),  # more than are kept of a save
        (run(1), VIOLATION),
        (run(200), HEALTHY),
        (run(5000), HEALTHY),
        (run(40, saves=1), HEALTHY),  # seen eight times
        (run(90, saves=1, batch=2), UNDECIDED),
        (run(40, elements=2), UNDECIDED),  # points
        (run(40, held=0.12), HEALTHY),  # evaluations do as well
        (run(40, held=2.0), VIOLATION),
        (run(40, kind=ACTING), NOT_APPLICABLE),
        (chain(run(40), run(40, kind=ACTING)), HEALTHY),
        (run(90, labels=100), HEALTHY),  # texts
        (run(40, labels=100), VIOLATION),
        (run(40, saves=120, new_from=60), HEALTHY),  # others came later
        (
            iter([Step(0, Mode.TRAIN, 0, 0.0, {"samples": (), "losses": (), "labels": ()})]),
            NOT_APPLICABLE,
        ),
    ],
)
def test_few_samples(steps: Iterator[Step], expected: object) -> None:
    assert [
        each
        for each in outcomes(FewSamples(), steps)
        if each is not NOT_APPLICABLE or (expected is NOT_APPLICABLE)
    ][-1] is expected


def test_says_how_many() -> None:
    verdict = list(judged(FewSamples(), run(40)))[-1]
    assert verdict.detail == (
        "the model was trained on only 40 different samples, each seen about 480 times"
    )
    assert dict(verdict.evidence) == {"different": 40, "times": 480}


def test_an_estimate_is_called_so() -> None:
    details = {each.detail for each in judged(FewSamples(), run(90)) if each.violation}
    assert details
    assert all("trained on only about " in detail for detail in details)


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1.0, 2.0],
        [1.0, 32.0, np.nan, 0.5],
        [0.0, 0.0, 0.0, 0.5],
        [[1.0, 32.0, 20.0, 0.5]],
        0.5,
        [1.0, 32.0, 20.0, 2.0],  # no hash
    ],
)
def test_odd_values(value: Any) -> None:
    found = {"samples": (samples(value),), "losses": (), "labels": ()}
    assert outcomes(FewSamples(), [Step(0, Mode.TRAIN, 0, 0.0, found)])[-1] in (
        NOT_APPLICABLE,
        UNDECIDED,
    )


@given(different=st.integers(1, 3000), batch=st.integers(1, 64))
def test_counts_them_about_right(different: int, batch: int) -> None:
    """A sketch of 64 hashes has a standard error of an eighth."""
    steps = list(run(different, saves=max(6, different // batch), batch=batch))
    state: Any = {}
    for step in steps:
        state, _ = FewSamples().evaluate(state, step)
    seen = state["seen"]
    counted = (len(seen["hashes"]) - (seen["up_to"] < 1)) / seen["up_to"]
    assert counted == pytest.approx(different, rel=0.45 if different > KEPT else 0.0)
