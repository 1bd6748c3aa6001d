from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules.workers.worker_losses import WorkerLosses

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    first,
    judged,
    outcomes,
    valued,
)


def run(
    *factors: float, steps: int = 200, noise: float = 0.3, seed: int = 0, skills: bool = True
) -> Iterator[Step]:
    """Losses that fall, of a worker for each factor, at saves of ten steps."""
    random = np.random.default_rng(seed)
    for at in range(0, steps, 10):
        found = []
        for worker, factor in enumerate(factors):
            level = 2.0 * np.exp(-np.arange(at, at + 10) / 100)
            losses = factor * level * np.exp(noise * random.normal(size=10))
            if skills:
                rows = np.stack([losses, losses, losses, np.full(10, 32.0)], axis=1)
                tensor = valued("ce/skill", rows, f"worker_{worker}", role=Role.SKILL)
            else:
                tensor = valued("loss", losses[-1], f"worker_{worker}", role=Role.LOSS)
            found.append(replace(tensor, worker=f"worker_{worker}"))
        read = {"skills": (), "losses": (), "skills" if skills else "losses": tuple(found)}
        yield Step(at, Mode.TRAIN, at, float(at), read)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run(1.0, 1.0), HEALTHY),
        (run(1.0, 3.0), VIOLATION),
        (run(1.0, 1.0, 3.0, 1.0), VIOLATION),
        (run(1.0, 1.1), HEALTHY),  # its own shard is a little harder
        (run(1.0, 3.0, steps=20), UNDECIDED),
        (run(1.0), NOT_APPLICABLE),
        (run(1.0, 3.0, steps=600, skills=False), VIOLATION),
    ],
)
def test_courses(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(WorkerLosses(), steps)[-1] is expected


@pytest.mark.parametrize("seed", range(20))
def test_equal_workers_are_never_alarmed(seed: int) -> None:
    assert first(judged(WorkerLosses(), run(1.0, 1.0, 1.0, noise=1.0, seed=seed))) is None


def test_it_names_the_worker() -> None:
    verdict = judged(WorkerLosses(), run(1.0, 1.0, 3.0))[-1]
    assert verdict.worker == "worker_2"
    assert "above that of the other workers" in (verdict.detail or "")
    assert "in the last half of the run (200 comparisons)" in (verdict.detail or "")
