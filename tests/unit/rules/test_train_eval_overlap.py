from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tocsin.model import ACTING, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.evaluation.train_eval_overlap import TrainEvalOverlap

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, judged, outcomes
from tests.unit.rules.test_few_samples import KEPT, loss, samples


def step(at: int, mode: Mode, found: dict[str, tuple[Tensor, ...]]) -> Step:
    return Step(at, mode, at, float(at), found)


def run(
    known: float,
    rows: int = 400,
    held_out: int = 200,
    *,
    batch: int = 32,
    evaluations: int = 4,
    elements: int = 20,
    kind: str | None = None,
    judges: bool = True,
) -> Iterator[Step]:
    """Of the samples of evaluations the share ``known`` is trained on."""
    draw = np.random.default_rng(0)
    hashes, others = draw.random(rows), draw.random(held_out)
    kept = round(known * held_out)
    evaluated = np.concatenate([hashes[:kept], others[kept:]])
    for at in range(evaluations):
        for number in range(50):
            drawn = np.unique(draw.choice(hashes, batch, replace=False))[:KEPT]
            found = {"samples": (samples([1, batch, elements, *drawn]),)}
            yield step(at * 51 + number, Mode.TRAIN, {**found, "losses": (loss(0.1, kind),)})
        smallest = np.unique(evaluated)[:KEPT]
        found = {"samples": (samples([1, held_out, elements, *smallest]),)}
        losses = (loss(0.1, kind),) if judges else ()
        yield step(at * 51 + 50, Mode.EVAL, {**found, "losses": losses})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run(1.0), VIOLATION),
        (run(1.0, rows=800, held_out=300), VIOLATION),
        (run(0.0), HEALTHY),
        (run(0.5), HEALTHY),  # both are evaluated
        (run(0.94, rows=300, held_out=320), HEALTHY),  # all that is trained on, and a few others
        (run(0.94, rows=600, held_out=320), VIOLATION),  # some of it, and a few others
        (run(1.0, evaluations=1), UNDECIDED),
        (run(1.0, rows=2000, held_out=10), UNDECIDED),
        (run(1.0, elements=2), UNDECIDED),  # points
        (run(1.0, rows=400, batch=400), UNDECIDED),  # a graph
        (run(1.0, rows=400, batch=260), UNDECIDED),  # or so, by the estimate of their number
        (run(1.0, kind=ACTING), NOT_APPLICABLE),
        (run(1.0, judges=False), NOT_APPLICABLE),
    ],
)
def test_train_eval_overlap(steps: Iterator[Step], expected: object) -> None:
    assert outcomes(TrainEvalOverlap(), steps)[-1] is expected


def folds(first: float, moved: float, *, evaluations: int = 3) -> Iterator[Step]:
    """Two folds: what the second one evaluates was trained on in the first one. At the begin of the
    second one the loss is ``first``, and the weights have ``moved`` by so many times their size."""
    draw = np.random.default_rng(0)
    parts = draw.random((2, 300))
    of_fold = 51 * evaluations
    for at in range(2 * of_fold):
        fold, number = divmod(at, of_fold)
        trained, held = parts[fold], parts[1 - fold]
        if number % 51 == 50:
            found = {"samples": (samples([1, 300, 20, *np.unique(held)[:KEPT]]),)}
            yield step(at, Mode.EVAL, {**found, "losses": (loss(0.1),)})
            continue
        begins = fold == 1 and number == 0
        value = first if begins else 2.0 if at < 5 else 0.1
        update = 40.0 * (moved if begins else 0.01)
        summary = TensorSummary(size=40, l1=40.0, update_l1=update)
        drawn = np.unique(draw.choice(trained, 64, replace=False))[:KEPT]
        yield step(
            at,
            Mode.TRAIN,
            {
                "samples": (samples([1, 64, 20, *drawn]),),
                "losses": (loss(value),),
                "weights": (Tensor("w", "worker_0", summary, role=Role.WEIGHT),),
            },
        )


@pytest.mark.parametrize(
    ("first", "moved", "alarmed"),
    [
        (0.1, 0.01, True),  # the model goes on, and knows the samples
        (1.8, 0.3, False),  # its first weights are loaded again
        (0.1, 1.3, False),  # its weights are drawn again, long before they are saved
        (0.5, 0.01, True),  # other samples, or a higher learning rate
    ],
)
def test_folds(first: float, moved: float, alarmed: bool) -> None:
    assert (VIOLATION in outcomes(TrainEvalOverlap(), folds(first, moved))) is alarmed


def test_says_how_many() -> None:
    verdict = list(judged(TrainEvalOverlap(), run(1.0)))[-1]
    assert verdict.detail == (
        "100 % of the evaluation samples were also seen in training (32 hashes compared)"
    )
    assert dict(verdict.evidence) == {"share": 1.0, "most": 0.9}


@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.EVAL, Mode.PREDICT])
@pytest.mark.parametrize(
    "value",
    [
        [],
        [1.0, 2.0],
        [1.0, 32.0, np.nan, 0.5],
        [[1.0, 32.0, 20.0, 0.5]],
        0.5,
        [1.0, 2.0, 20.0, 2.0],
    ],
)
def test_odd_values(value: Any, mode: Mode) -> None:
    found = {"samples": (samples(value),), "losses": (loss(0.1),)}
    expected = (NOT_APPLICABLE, UNDECIDED)
    assert outcomes(TrainEvalOverlap(), [step(0, mode, found)])[-1] in expected


def test_zeros_are_met_by_chance() -> None:
    """A sample of zeros has the hash 0, as one of whole numbers in evaluations."""
    zeros = samples([1.0, 32.0, 20.0, 0.0])
    found = {"samples": (zeros,), "losses": (loss(1.0),)}
    steps = [step(at, mode, found) for at, mode in enumerate((Mode.TRAIN, Mode.EVAL) * 3)]
    assert outcomes(TrainEvalOverlap(), steps)[-1] is UNDECIDED
