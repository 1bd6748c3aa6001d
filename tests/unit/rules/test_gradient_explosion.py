from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.gradient_explosion import GradientExplosion

from tests.unit.rules.judging import fired, judging

NAN, INF = float("nan"), float("inf")
judged = judging("GradientExplosion")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        pytest.param([1, 1, 1, 1, 1, 99, 100, 1e4, 1], [6, 7], id="grows"),
        pytest.param([10, 5, 2, 1, 0.5, 0.1, 20, 199, 200], [8], id="set against the start"),
        pytest.param([1e-4] * 5 + [1e-2, 1.0, 9.0, 10.0], [8], id="from a plateau"),
        pytest.param([1, 3, 9, 27, 81, 243, 729, 2187], [7], id="grows from the start"),
        pytest.param([0, 0, 1, 1, 1, 1, 1, 100], [7], id="no gradient yet"),
        pytest.param([1, 1, 1e8, 1], [2], id="too large in any case"),
        pytest.param([0.0] * 9, [], id="never a gradient"),
        pytest.param([5.0], [], id="one step"),
        pytest.param([NAN, 1, 1, NAN, 1, 1, 1, INF, 150], [8], id="what is lost does not count"),
    ],
)
def test_norms(make_step: MakeStep, norms: list[float], expected: list[int]) -> None:
    steps = [make_step("gradients", 10 * at, {"g": [norm]}) for at, norm in enumerate(norms)]
    assert fired(judged(steps)) == expected


def test_undecided_while_the_start_is_not_known(make_step: MakeStep) -> None:
    verdicts = judged(make_step("gradients", at, {"g": [1.0]}) for at in range(7))
    assert [verdict.outcome for verdict in verdicts] == (
        [Outcome.UNDECIDED] * 5 + [Outcome.HEALTHY] * 2
    )


def test_all_gradients_of_the_worst_worker(make_step: MakeStep, make_tensor: MakeTensor) -> None:
    """The norm of 3 and 4 is 5; of two workers the larger norm counts, also at the start."""

    def step(at: int, factor: float) -> Step:
        found = [
            make_tensor("a", [1.0], worker="worker_0"),
            make_tensor("a", [3.0 * factor], worker="worker_1"),
            make_tensor("b", [0.0, 4.0 * factor], worker="worker_1"),
        ]
        return make_step("gradients", at, found)

    verdict = judged([*(step(at, 1.0) for at in range(5)), step(5, 200.0)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.ABOVE_THRESHOLD,
        "b",
        "worker_1",
    )
    assert verdict.detail == (
        "the gradients' norm is 1e+03, the limit 500; at the start it was 5; the largest one is b"
    )
    assert dict(verdict.evidence) == {"norm": 1000.0, "limit": 500.0, "start": 5.0}
    assert next(iter(verdict.evidence)) == "norm"


@pytest.mark.parametrize(
    "found", [{}, {"g": TensorSummary()}, {"g": TensorSummary(abs_mean=1.0)}, {"g": ["text"]}]
)
def test_nothing_to_judge(make_step: MakeStep, found: dict[str, Any]) -> None:
    state, verdict = GradientExplosion().evaluate({}, make_step("gradients", 0, found))
    assert (state, verdict.outcome) == ({}, Outcome.NOT_APPLICABLE)


@pytest.mark.parametrize("content", [np.zeros((0, 3)), 5, np.array([2, 3], np.int32)])
def test_odd_tensors(make_step: MakeStep, content: Any) -> None:
    assert not fired(judged(make_step("gradients", 0, {"g": content}) for _ in range(7)))
