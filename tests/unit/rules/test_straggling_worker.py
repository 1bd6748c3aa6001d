from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Verdict
from tocsin.rules import BadRule, Step, build
from tocsin.rules.straggling_worker import StragglingWorker

RANDOM = np.random.default_rng(0)
STEPS = 40


def rule(**parameters: Any) -> StragglingWorker:
    built, _ = build("StragglingWorker", parameters)
    assert isinstance(built, StragglingWorker)
    return built


def judged(rule: StragglingWorker, times: Iterable[Mapping[str, float]]) -> list[Verdict]:
    """The verdicts on steps that the workers wrote at these times."""
    state: Any = {}
    verdicts = []
    for number, written in enumerate(times):
        newest = max(written.values(), default=0.0)
        step = Step(number, Mode.TRAIN, number, newest, {"tensors": ()}, times=written)
        after, verdict = rule.evaluate(state, step)
        state = msgspec.json.decode(msgspec.json.encode(after))
        verdicts.append(verdict)
    return verdicts


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
    streak = longest = 0
    for verdict in judged(rule(), times):
        streak = streak + 1 if verdict.violation else 0
        longest = max(longest, streak)
    assert longest < rule_options()["for_steps"]


def rule_options() -> dict[str, Any]:
    return build("StragglingWorker", {})[1]


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
    verdicts = judged(rule(**parameters), times)
    assert not any(verdict.violation for verdict in verdicts[:11])
    assert all(verdict.violation for verdict in verdicts[-8:])
    worst = max(times[-1], key=lambda worker: times[-1][worker])
    assert {verdict.worker for verdict in verdicts if verdict.violation} == {worst}


def test_a_worker_that_is_missing_now_and_then_is_not_well_in_between() -> None:
    times = run(lambda step: 60.0 if step > 10 else 0.0)
    for step in range(0, STEPS, 3):
        del times[step]["worker_3"]
    outcomes = [verdict.outcome for verdict in judged(rule(), times)]
    assert outcomes[-3:] == [Outcome.VIOLATION, Outcome.VIOLATION, Outcome.UNDECIDED]


def test_says_how_late() -> None:
    verdict = judged(rule(), run(lambda step: 60.0 if step > 10 else 0.0))[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.LATE, None, "worker_3")
    assert verdict.detail == "worker_3 was 60 s behind its peers, which write a step every 20 s"
    assert dict(verdict.evidence) == {"late_seconds": 60.0, "interval_seconds": 20.0}


def test_outcomes() -> None:
    seen = [verdict.outcome for verdict in judged(rule(), run(lambda step: 0.0))]
    assert seen == [Outcome.UNDECIDED] * 4 + [Outcome.HEALTHY] * (STEPS - 4)
    alone = judged(rule(), run(lambda step: 0.0, workers=1))
    assert {verdict.outcome for verdict in alone} == {Outcome.NOT_APPLICABLE}


def test_the_state_of_many_workers_is_small() -> None:
    state: Any = {}
    for number in range(8):
        times = {f"worker_{rank}": 1.7e9 + number * np.pi + rank / 7 for rank in range(2000)}
        step = Step(number, Mode.TRAIN, number, 0.0, {"tensors": ()}, times=times)
        state, _ = rule().evaluate(state, step)
    assert len(msgspec.json.encode(state)) < 64 << 10


def test_profiles() -> None:
    assert build("StragglingWorker", {}) == (StragglingWorker(), {"for_steps": 3})
    assert StragglingWorker.profiles == ("recommended",)
    assert rule(threshold_seconds="30", ratio="2") == StragglingWorker(30.0, 2.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold_seconds": "0"}, "threshold_seconds is 0.0, but must be a number above 0"),
        ({"threshold_seconds": "nan"}, "threshold_seconds is nan, but must be a number above 0"),
        ({"ratio": "-1"}, "ratio is -1.0, but must be a number of at least 0"),
    ],
)
def test_refused_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule) as caught:
        build("StragglingWorker", parameters)
    assert message in str(caught.value)
