from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Role, Severity
from tocsin.rules import State, Step
from tocsin.rules.layers.collapse import Collapse

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    outcomes,
    valued,
)

READS = Collapse().reads().tensors


def run(
    spreads: list[float],
    *,
    columns: int = 8,
    size: float = 1.0,
    saved: bool = True,
    labels: bool = False,
    skills: bool = False,
) -> Iterator[Step]:
    """Embeddings of 16 samples that vary by so much; whether a hook saved by how much."""
    random = np.random.default_rng(0)
    for at, spread in enumerate(spreads):
        points = size * (3 + spread * random.normal(size=(16, columns)))
        share = points.var(0).mean() / np.square(points).mean()
        output = valued("out", points, read=READS["predictions"], role=Role.PREDICTION)
        found = valued("spread/out", np.array(share), read=READS["spreads"], role=Role.SPREAD)
        label = valued("y", np.arange(16), read=READS["labels"], role=Role.LABEL)
        tensors = {
            "predictions": (output,),
            "spreads": (found,) if saved else (),
            "labels": (label,) if labels else (),
            "skills": (replace(found, role=Role.SKILL),) if skills else (),
        }
        yield Step(at, Mode.TRAIN, at, float(at), tensors)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1.0] * 10 + [0.1] * 5), VIOLATION),
        (run([1.0] * 10 + [0.1] * 5, size=1e6), VIOLATION),
        (run([1.0] * 10 + [0.0] * 5), VIOLATION),
        (run([1.0] * 10 + [0.5] * 5), HEALTHY),
        (run([1e-5] * 20), HEALTHY),  # as it started
        (run([1.0] * 5), UNDECIDED),
        (run([1.0] * 10 + [0.1] * 5, columns=1), NOT_APPLICABLE),
        (run([1.0] * 10 + [0.1] * 5, saved=False), VIOLATION),
        (run([1.0] * 10 + [0.5] * 5, saved=False), HEALTHY),
        (run([1.0] * 10 + [0.1] * 5, saved=False, labels=True), NOT_APPLICABLE),
        (run([1.0] * 10 + [0.1] * 5, saved=False, skills=True), NOT_APPLICABLE),
        (run([1.0] * 10 + [0.1] * 5, labels=True, skills=True), VIOLATION),  # of another loss
    ],
)
def test_courses(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(Collapse(), steps)[-1] is expected


def test_outputs_that_grow_around_another_mean_disturb_nobody() -> None:
    """A value of 200 ± 5 varies less as a share, and more by itself."""
    random = np.random.default_rng(0)
    state: State = {}
    for at in range(20):
        mean, deviation = (0.0, 0.3) if at < 10 else (200.0, 5.0)
        points = mean + deviation * random.normal(size=(16, 8))
        share = points.var(0).mean() / np.square(points).mean()
        output = valued("out", points, read=READS["predictions"], role=Role.PREDICTION)
        found = valued("spread/out", np.array(share), read=READS["spreads"], role=Role.SPREAD)
        tensors = {"predictions": (output,), "spreads": (found,), "labels": (), "skills": ()}
        state, verdict = Collapse().evaluate(state, Step(at, Mode.TRAIN, at, float(at), tensors))
    assert (verdict.outcome, verdict.severity) == (VIOLATION, Severity.INFO)
