"""Rules that judge how many of all steps are spikes, saved or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from tocsin.model import Bounds, Mode, TensorSummary
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import fired, judging, made

MakeTensor = Callable[..., Tensor]
RULES = ["GradientExplosion", "LossSpike", "LossOscillating"]


def interval(steps: int, spikes: int, at: int) -> TensorSummary:
    return TensorSummary(
        size=steps, nan=0, max=50.0, bounds=Bounds(high=5.0, above=spikes), max_step=at
    )


@pytest.fixture
def steps(make_tensor: MakeTensor) -> Callable[..., Iterator[Step]]:
    """Saves with the summary of an interval each, in which so many steps were spikes."""

    def make(spikes: Sequence[int], every: int = 10, workers: int = 1) -> Iterator[Step]:
        for at, number in enumerate(spikes):
            found = tuple(
                make_tensor("interval/x", interval(every, number, at * every), worker=f"w{each}")
                for each in range(workers)
            )
            tensors = {
                "gradients": (make_tensor("g", [1.0]),),
                "weights": (),
                "objectives": (),
                "losses": (make_tensor("loss", 1.0),),
                "between": found if at else (),
            }
            yield Step(at * every, Mode.TRAIN, at * every, 0.0, tensors)

    return make


@pytest.mark.parametrize(
    ("rule", "spikes", "expected"),
    [
        pytest.param("GradientExplosion", [0] * 30 + [0, 1, 0, 0, 0] * 12, 46, id="often"),
        pytest.param("LossSpike", [0] * 20 + [0, 1, 0, 0, 0] * 12, 36, id="losses"),
        pytest.param("LossOscillating", [0] * 10 + [1, 2] * 30, 27, id="many"),
        pytest.param("LossOscillating", [0] * 10 + [0, 1] * 30, None, id="too few"),
        pytest.param("GradientExplosion", [0] * 30 + [3] * 5 + [0] * 60, None, id="one moment"),
        pytest.param("GradientExplosion", [1] * 10, None, id="too early"),
        pytest.param("GradientExplosion", [0] * 100, None, id="none"),
    ],
)
def test_a_share_of_spikes_fires(
    steps: Any, rule: str, spikes: list[int], expected: int | None
) -> None:
    verdicts = judging(rule)(steps(spikes))
    found = fired(verdicts)
    assert (found[0] if found else None) == expected
    if expected is not None:
        verdict = verdicts[expected]
        assert f"the latest is step {10 * expected}" in verdict.detail
        assert verdict.tensor == "interval/x"
        assert {"share", "spikes", "steps", "spike_step"} == {*verdict.evidence}


@pytest.mark.parametrize("rule", RULES)
def test_a_long_interval_and_several_workers(steps: Any, rule: str) -> None:
    assert fired(judging(rule)(steps([0, *[20] * 20], every=100, workers=2)))


def test_old_steps_are_forgotten(steps: Any) -> None:
    found = fired(judging("GradientExplosion")(steps([1, 0, 0, 0, 0] * 10 + [0] * 200)))
    assert found
    assert found[-1] < 160


@pytest.mark.parametrize("rule", RULES)
def test_the_state_stays_small(steps: Any, rule: str) -> None:
    state: Any = {}
    for step in steps([0, 1] * 3000, every=1):
        state, _ = made(rule).evaluate(state, step)
    assert len(str(state)) < 4000
