from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Role
from tocsin.rules import Step
from tocsin.rules.layers.dead_network import DeadNetwork

from tests.unit.rules.judging import HEALTHY, UNDECIDED, VIOLATION, judged, outcomes, valued

READS = DeadNetwork().reads().tensors


def run(
    losses: list[float],
    *,
    spread: float | None = 0.0,
    alive: bool = False,
    size: float = 1.0,
    from_save: int = 0,
    inputs: float | None = None,
) -> Iterator[Step]:
    """Saves with predictions that vary over the samples by ``spread``, and a layer of ReLUs."""
    random = np.random.default_rng(0)
    for at, loss in enumerate(losses):
        dead = at >= from_save
        varies = spread if dead else 1.0
        found = {
            "losses": (valued("loss", loss, role=Role.LOSS),),
            "outputs": (),
            "predictions": (),
            "inputs": (),
        }
        if inputs is not None:
            given = 1 + inputs * random.normal(size=(16, 4))
            read = READS["inputs"]
            found["inputs"] = (valued("Net_input_0", given, read=read, role=Role.INPUT),)
        layer = np.maximum(random.normal(size=(16, 32)), 0) * (alive or not dead)
        found["outputs"] = (valued("relu", layer, read=READS["outputs"], kind="relu"),)
        if varies is not None:
            rows = size * (1 + varies * random.normal(size=(16, 3)))
            predictions = valued("out", rows, read=READS["predictions"], role=Role.PREDICTION)
            found["predictions"] = (predictions,)
        yield Step(10 * at, Mode.TRAIN, 10 * at, float(at), found)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1.6] * 20), VIOLATION),
        (run([1.6] * 20, size=1e6), VIOLATION),
        (run([1.6] * 20, spread=0.1), HEALTHY),  # a dead branch beside a living one
        (run([1.6] * 20, spread=1e-4), HEALTHY),  # a plateau
        (run([1.6] * 20, spread=None), VIOLATION),
        (run([1.6] * 20, spread=None, alive=True), HEALTHY),
        (run([1.6] * 20, inputs=0.1), VIOLATION),
        (run([1.6] * 20, inputs=0.0), UNDECIDED),  # each sample begins with the same state
        (run([1.6] * 9), UNDECIDED),
        (run([1.6] * 12, from_save=5), UNDECIDED),
        (run([5.0 - 0.2 * at for at in range(20)]), HEALTHY),  # the last bias learns
    ],
)
def test_courses(steps: Iterator[Step], expected: Outcome) -> None:
    assert outcomes(DeadNetwork(), steps)[-1] is expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (run([1.6] * 12), "out is the same for all samples from the first save on"),
        (run([1.6] * 15, from_save=5), "out is the same for all samples in each of the last 10"),
        (run([1.6] * 12, size=0.0), "out is 0 for all samples from the first save on"),
        ([*run([1.6] * 12), *run([1.6] * 11, from_save=1)], "out is the same for all samples from"),
        (run([1.6] * 12, spread=None), "relu is the same for all samples"),  # not of the model's
    ],
)
def test_what_keeps_it_constant(steps: Iterable[Step], expected: str) -> None:
    assert judged(DeadNetwork(), steps)[-1].detail.startswith(expected)


@pytest.mark.parametrize("peak", [1.6, 2.0, 2.5, 4.0])
def test_a_rate_that_killed_it_is_named(peak: float) -> None:
    found = judged(DeadNetwork(), run([1.6, 1.5, 1.5, peak, *[1.6] * 12], from_save=3))[-1]
    named = "it died as that rose from 1.6 to" in found.detail
    assert (found.outcome, named) == (VIOLATION, peak >= 2.5)
