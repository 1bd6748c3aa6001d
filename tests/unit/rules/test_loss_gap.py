from __future__ import annotations

from collections.abc import Iterator

import pytest
from tocsin.model import Mode, Outcome
from tocsin.rules import Step
from tocsin.rules.loss_gap import LossGap

from tests.unit.rules.comparing import comparisons, noisy
from tests.unit.rules.judging import HEALTHY, UNDECIDED, VIOLATION, judged, outcomes


def run(train: float, evaluated: list[float], samples: int = 64) -> Iterator[Step]:
    """An evaluation of four batches after every 50 training steps; a guess has the loss 2."""
    trained = list(comparisons(noisy(train, 50 * len(evaluated))))
    for at, step in enumerate(trained):
        yield step
        if at % 5 == 4:
            loss = evaluated[at // 5]
            shown = {"loss": loss, "samples": samples, "mode": Mode.EVAL, "site": "other"}
            yield from comparisons([0.1] * 4, 4, **shown)


@pytest.mark.parametrize(
    ("train", "evaluated", "samples", "expected"),
    [
        (0.8, [9.0] * 10, 64, VIOLATION),
        (0.8, [1.0] * 10, 64, HEALTHY),
        (0.8, [1.0] * 5 + [9.0] * 5, 64, HEALTHY),  # it overfits
        (0.8, [9.0] * 5 + [1.0] * 5, 64, HEALTHY),  # it generalises late
        (0.0, [9.0] * 10, 64, HEALTHY),  # nothing learned in TRAIN either
        (0.8, [9.0] * 10, 2, UNDECIDED),
    ],
)
def test_courses(train: float, evaluated: list[float], samples: int, expected: Outcome) -> None:
    assert outcomes(LossGap(), run(train, evaluated, samples))[-1] is expected


def test_it_says_both() -> None:
    detail = judged(LossGap(), run(0.8, [9.0] * 10))[-1].detail or ""
    assert "below that of a constant guess in TRAIN" in detail
    assert "above it in EVAL, from the first evaluation on" in detail
