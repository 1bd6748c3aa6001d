from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tocsin.model import Mode, Outcome, Severity
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import fired, judging

MakeTensor = Callable[..., Tensor]
judged = judging("UpdatesSkipped")


@pytest.fixture
def steps(make_tensor: MakeTensor) -> Callable[..., Iterator[Step]]:
    """Saves of every tenth step, with so many skipped updates since the save before."""

    def make(skipped: Sequence[int], worker: str = "worker_0") -> Iterator[Step]:
        for at in range(len(skipped)):
            counts = {"skipped": sum(skipped[: at + 1]), "all": 10 * (at + 1)}
            found = tuple(
                replace(make_tensor(f"updates/{kind}", float(count), worker=worker), kind=kind)
                for kind, count in counts.items()
            )
            yield Step(10 * at, Mode.TRAIN, 10 * at, 0.0, {"updates": found})

    return make


@pytest.mark.parametrize(
    ("skipped", "expected", "severity"),
    [
        pytest.param([0] * 30, [], None, id="none"),
        pytest.param([1] + [0] * 20, [*range(1, 10)], Severity.INFO, id="the first"),
        pytest.param([0] * 5 + [1] + [0] * 20, [*range(6, 15)], Severity.INFO, id="one"),
        pytest.param([0] * 5 + [2] + [0] * 4, [*range(6, 10)], Severity.INFO, id="two"),
        pytest.param([0] * 8 + [10] * 4, [*range(8, 12)], Severity.CRITICAL, id="all"),
        pytest.param([0] * 8 + [3] * 4, [*range(9, 12)], Severity.CRITICAL, id="a third"),
        pytest.param([10] * 3, [0, 1, 2], Severity.CRITICAL, id="from the start"),
    ],
)
def test_when_it_fires(
    steps: Any, skipped: list[int], expected: list[int], severity: Severity | None
) -> None:
    verdicts = judged(steps(skipped))
    assert fired(verdicts) == expected
    if expected:
        assert verdicts[expected[-1]].severity is severity


def test_a_restart_counts_from_the_start(steps: Any) -> None:
    first, again = list(steps([0, 0, 0, 3])), list(steps([0, 0, 1, 0]))
    assert fired(judged([*first, *again])) == [7]


def test_no_counts(steps: Any) -> None:
    [verdict] = judged([Step(0, Mode.TRAIN, 0, 0.0, {"updates": ()})])
    assert verdict.outcome is Outcome.NOT_APPLICABLE
