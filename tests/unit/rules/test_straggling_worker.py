from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Reason
from tocsin.rules import Step

from tests.unit.rules.judging import (
    HEALTHY,
    NOT_APPLICABLE,
    UNDECIDED,
    VIOLATION,
    fired,
    judged,
    made,
    outcomes,
)

RANDOM = np.random.default_rng(0)
STEPS = 40
rule = partial(made, "StragglingWorker")


def saves(times: Iterable[Mapping[str, float]]) -> list[Step]:
    """Steps that the workers wrote at these times."""
    return [
        Step(at, Mode.TRAIN, at, max(written.values(), default=0.0), {"tensors": ()}, times=written)
        for at, written in enumerate(times)
    ]


def run(
    late: Callable[[int], float], *, interval: float = 20.0, workers: int = 4, jitter: float = 0.0
) -> list[dict[str, float]]:
    """A run in which the last worker is late, in seconds at each step."""
    return [
        {
            f"worker_{rank}": 1.7e9
            + interval * step
            + RANDOM.uniform(0, jitter)
            + late(step) * (rank == workers - 1)
            for rank in range(workers)
        }
        for step in range(STEPS)
    ]


def draining(step: int) -> float:
    """An upload hung for a minute; what had waited behind it is written at once."""
    return max(0.0, 60.0 - 2.0 * (step - 10)) if step >= 10 else 0.0


QUIET = {
    "in step": run(lambda step: 0.0),
    "seconds of jitter": run(lambda step: 0.0, jitter=5.0),
    "seconds of jitter, fast steps": run(lambda step: 0.0, interval=0.1, jitter=5.0),
    "a little late": run(lambda step: 9.0 if step > 10 else 0.0),
    "late, but by less than a step": run(lambda step: 15.0 if step > 10 else 0.0),
    "always late": run(lambda step: 45.0),
    "late once": run(lambda step: 60.0 if step == 20 else 0.0),
    "late now and then": run(lambda step: 60.0 if step % 4 == 0 and step > 6 else 0.0),
    "an upload that hung": run(draining, interval=2.0),
    "early": run(lambda step: -60.0 if step > 10 else 0.0),
    "one worker": run(lambda step: 60.0 * step, workers=1),
    "times go back": [dict.fromkeys("ab", float(-step)) for step in range(STEPS)],
    "all at once": [dict.fromkeys("abc", 5.0)] * STEPS,
    "nobody": [{}] * STEPS,
}


@pytest.mark.parametrize("times", QUIET.values(), ids=QUIET)
def test_quiet(times: list[dict[str, float]]) -> None:
    late = fired(judged(rule(), saves(times)))
    assert not any({at, at + 1, at + 2} <= set(late) for at in late)  # three in a row


FIRES = {
    "falls behind": (run(lambda step: max(0, step - 10) * 10.0), {}),
    "falls behind from the start": (run(lambda step: step * 10.0), {}),
    "stays behind": (run(lambda step: 60.0 if step > 10 else 0.0), {}),
    "stays behind, with jitter": (run(lambda step: 60.0 if step > 10 else 0.0, jitter=5.0), {}),
    "two workers": (run(lambda step: max(0, step - 10) * 10.0, workers=2), {}),
    "fast steps": (run(lambda step: max(0, step - 10) * 1.0, interval=0.5), {}),
    "by less than a step": (run(lambda step: 15.0 if step > 10 else 0.0), {"ratio": "0.5"}),
    "by little": (
        run(lambda step: 9.0 if step > 10 else 0.0, interval=5.0),
        {"threshold_seconds": "5"},
    ),
    "later than it always was": (run(lambda step: 120.0 if step > 10 else 45.0), {}),
}


@pytest.mark.parametrize(("times", "parameters"), FIRES.values(), ids=FIRES)
def test_fires_and_goes_on(times: list[dict[str, float]], parameters: dict[str, str]) -> None:
    verdicts = judged(rule(**parameters), saves(times))
    assert not any(verdict.violation for verdict in verdicts[:11])
    assert all(verdict.violation for verdict in verdicts[-8:])
    worst = max(times[-1], key=lambda worker: times[-1][worker])
    assert {verdict.worker for verdict in verdicts if verdict.violation} == {worst}


def test_a_worker_that_is_missing_now_and_then_is_not_well_in_between() -> None:
    times = run(lambda step: 60.0 if step > 10 else 0.0)
    for step in range(0, STEPS, 3):
        del times[step]["worker_3"]
    assert outcomes(rule(), saves(times))[-3:] == [VIOLATION, VIOLATION, UNDECIDED]


def test_says_how_late() -> None:
    verdict = judged(rule(), saves(run(lambda step: 60.0 if step > 10 else 0.0)))[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.LATE, None, "worker_3")
    assert (
        verdict.detail == "worker_3 wrote its step 60 s after its peers, which write one every 20 s"
    )
    assert dict(verdict.evidence) == {"late_seconds": 60.0, "interval_seconds": 20.0}


def test_outcomes() -> None:
    together, alone = (saves(run(lambda step: 0.0, workers=workers)) for workers in (4, 1))
    assert outcomes(rule(), together) == [UNDECIDED] * 4 + [HEALTHY] * (STEPS - 4)
    assert set(outcomes(rule(), alone)) == {NOT_APPLICABLE}


def test_the_state_of_many_workers_is_small() -> None:
    state: Any = {}
    for number in range(8):
        times = {f"worker_{rank}": 1.7e9 + number * np.pi + rank / 7 for rank in range(2000)}
        step = Step(number, Mode.TRAIN, number, 0.0, {"tensors": ()}, times=times)
        state, _ = rule().evaluate(state, step)
    assert len(msgspec.json.encode(state)) < 64 << 10
