from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules.collapse import Collapse

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    outcomes,
    valued,
)

READS = Collapse().reads().tensors


def run(spreads: list[float], *, labels: bool = False, size: float = 1.0) -> Iterator[Step]:
    """Embeddings of 16 samples that vary by so much."""
    random = np.random.default_rng(0)
    for at, spread in enumerate(spreads):
        points = size * (3 + spread * random.normal(size=(16, 8)))
        found = valued("out", points, read=READS["predictions"], role=Role.PREDICTION)
        label = valued("y", np.arange(16), read=READS["labels"], role=Role.LABEL)
        tensors = {"predictions": (found,), "labels": (label,) if labels else ()}
        yield Step(at, Mode.TRAIN, at, float(at), tensors)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1.0] * 10 + [1e-5] * 5), VIOLATION),
        (run([1.0] * 10 + [1e-5] * 5, size=1e6), VIOLATION),
        (run([1.0] * 10 + [0.01] * 5), HEALTHY),
        (run([1e-5] * 20), HEALTHY),  # as it started
        (run([1.0] * 5), UNDECIDED),
        (run([1.0] * 10 + [1e-5] * 5, labels=True), NOT_APPLICABLE),
    ],
)
def test_courses(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(Collapse(), steps)[-1] is expected
