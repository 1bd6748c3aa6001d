from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tocsin.model import ACTING, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.evaluation.evaluation_unchanged import EvaluationUnchanged

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    judged,
    outcomes,
)

NAN = float("nan")
NOISY = (1.1037, 0.9028, 1.0519, 0.9746)


def loss(name: str, value: float, kind: str | None = None) -> Tensor:
    return Tensor(name, "worker_0", TensorSummary(mean=value), role=Role.LOSS, kind=kind)


def run(
    evaluated: Sequence[float],
    trained: Sequence[float] = NOISY,
    *,
    every: int = 50,
    name: str = "loss",
    kind: str | None = None,
) -> Iterator[Step]:
    """An evaluation after so many training steps, each tenth of which is saved."""
    at = 0
    for number, value in enumerate([*evaluated, None]):
        for _ in range(every // 10):
            level = trained[at % len(trained)]
            found = {"losses": (loss(name, level, kind),)}
            yield Step(10 * at, Mode.TRAIN, 10 * at, float(at), found)
            at += 1
        if value is not None:
            found = {"losses": (loss(name, value, kind),)}
            yield Step(10 * at, Mode.EVAL, number, float(at), found)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([2.0] * 6), VIOLATION),
        (run([2.0] * 4), HEALTHY),
        (run([2.0, 1.5, 1.2, *[1.1] * 5]), VIOLATION),
        (run([2.0, 1.8, 1.6, 1.4, 1.3, 1.2, 1.15, *[1.1] * 5]), HEALTHY),  # at the end
        (run([*[2.0] * 6, 1.0]), HEALTHY),  # it learns after all
        (run([2.0 + 0.002 * (at % 2) for at in range(8)]), HEALTHY),
        (run([2.0 * (1 + 1e-5 * at) for at in range(8)]), VIOLATION),  # saturated
        (run([2.0 * (1 + 5e-5 * at) for at in range(8)]), HEALTHY),
        (run([2.0] * 8, [1.0001]), HEALTHY),  # whole batches, and an optimum
        (run([1.0, *[1e-4] * 8]), HEALTHY),  # nothing is left to learn
        (run([2.0] * 8, [1.0, *[1e-5, 2.0137e-5] * 200]), HEALTHY),  # nor here: it overfits
        (run([2.0] * 8, every=10), HEALTHY),  # after ten steps each
        (run([0.5] * 8, name="validation_merror"), NOT_APPLICABLE),
        (run([-33.6] * 8), VIOLATION),
        (run([0.0] * 8), HEALTHY),
        (run([NAN] * 8), NOT_APPLICABLE),
        (run([2.0] * 8, kind=ACTING), NOT_APPLICABLE),
        (run([]), NOT_APPLICABLE),
    ],
)
def test_courses(steps: Iterator[Step], expected: object) -> None:
    found = outcomes(EvaluationUnchanged(), steps)
    known = [each for each in found if each is not UNDECIDED]
    assert (known or [UNDECIDED])[-1] is expected


def test_a_log_of_two_decimals_hides_what_changes() -> None:
    rounded = outcomes(EvaluationUnchanged(), run([2.0] * 8, [1.1, 0.9, 1.05]))
    assert VIOLATION not in rounded


def test_it_says_what_varies() -> None:
    (detail, *_) = [
        each.detail for each in judged(EvaluationUnchanged(), run([2.0] * 6)) if each.violation
    ]
    assert detail == (
        "loss is 2 again, as in the 4 evaluations before, while training loss varies from 0.903 "
        "to 1.1: the model does not change"
    )
