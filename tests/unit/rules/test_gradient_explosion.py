from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, TensorSummary
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import fired, judging

NAN, INF = float("nan"), float("inf")
judged = judging("GradientExplosion")

MakeTensor = Callable[..., Tensor]


@pytest.fixture
def steps(make_tensor: MakeTensor) -> Callable[..., Iterator[Step]]:
    """Steps with a gradient of each norm, and with weights and losses if there are."""

    def make(
        norms: Sequence[Any], losses: Sequence[float] = (), weight: float | None = None
    ) -> Iterator[Step]:
        for at, norm in enumerate(norms):
            found = {
                "gradients": (
                    make_tensor("g", norm if isinstance(norm, TensorSummary) else [norm]),
                ),
                "weights": () if weight is None else (make_tensor("w", [weight]),),
                "losses": (make_tensor("loss", losses[at]),) if losses else (),
            }
            yield Step(10 * at, Mode.TRAIN, 10 * at, 0.0, found)

    return make


@pytest.mark.parametrize(
    ("norms", "expected"),
    [
        pytest.param([1, 1, 1, 1, 1, 29, 30, 1e4, 1], [6, 7], id="grows"),
        pytest.param([1] * 9 + [40] * 30, [*range(9, 39)], id="stays large"),
        pytest.param([1] * 9 + [40] * 3 + [1] * 30, [9, 10, 11], id="is over"),
        pytest.param([1, 3, 9, 27, 81, 243, 729, 2187, 6561], [6, 7, 8], id="from the start"),
        pytest.param([0, 0, 1, 1, 1, 1, 1, 100], [7], id="no gradient yet"),
        pytest.param([0.0] * 9, [], id="never a gradient"),
        pytest.param([5.0], [], id="one step"),
        pytest.param([1e9] * 9, [], id="large from the start"),
        pytest.param([NAN, 1, 1, NAN, 1, 1, 1, INF, 150], [8], id="what is lost does not count"),
    ],
)
def test_norms_alone(steps: Any, norms: list[float], expected: list[int]) -> None:
    assert fired(judged(steps(norms))) == expected


FALLING = [2.3, 2.3, 2.3, 2.3, 2.3, 2.3, 2.2, 1.8, 1.2, 0.6, 0.3, 0.1]


@pytest.mark.parametrize(
    ("norms", "losses", "expected"),
    [
        pytest.param([0.1] * 6 + [0.5, 2, 4, 8, 15, 9], FALLING, [], id="leaves a plateau"),
        pytest.param([1.0] * 6 + [1e3] * 6, [2.3] * 12, [*range(6, 12)], id="loss stays"),
        pytest.param([1.0] * 6 + [1e3] * 6, [2.3] * 6 + [9.0] * 6, [*range(7, 12)], id="rises"),
        pytest.param(
            [1.0] * 6 + [1e3] * 6, [9.0] * 4 + [0.2] * 2 + [0.7] * 6, [], id="loses little"
        ),
        pytest.param([1.0] * 6 + [1e3] * 6, [-2.3] * 12, [*range(6, 12)], id="loss below 0"),
        pytest.param([1.0] * 12, [1.0] + [1e-6] * 11, [], id="loss near 0"),
    ],
)
def test_norms_beside_losses(
    steps: Any, norms: list[float], losses: list[float], expected: list[int]
) -> None:
    for scale in (1.0, 1e-6, 1e6):
        found = steps([scale * n for n in norms], [scale * loss for loss in losses], weight=3.0)
        assert fired(judged(found)) == expected


def test_what_explodes_stays_found_where_the_loss_is_noise(steps: Any) -> None:
    """The loss seems to improve at every other save: such saves are none to compare with."""
    losses = np.random.default_rng(0).normal(2.3, 0.1, 100).tolist()
    found = fired(judged(steps([1.0] * 10 + [1e3] * 90, losses)))
    assert found[0] >= 10
    assert max(np.diff([*found, 100])) < 16
    assert len(found) > 30


def test_a_norm_that_a_user_calls_too_large(steps: Any) -> None:
    assert fired(judged(steps([1, 1, 1e8, 1]), threshold=1e8)) == [2]


def test_undecided_while_there_is_nothing_to_compare_with(steps: Any) -> None:
    assert [verdict.outcome for verdict in judged(steps([1.0] * 7))] == (
        [Outcome.UNDECIDED] * 5 + [Outcome.HEALTHY] * 2
    )


def test_all_gradients_of_the_worst_worker(make_tensor: MakeTensor) -> None:
    """The norm of 3 and 4 is 5; of two workers the larger norm counts, also at the start."""

    def step(at: int, factor: float) -> Step:
        found = (
            make_tensor("a", [1.0], worker="worker_0"),
            make_tensor("a", [3.0 * factor], worker="worker_1"),
            make_tensor("b", [0.0, 4.0 * factor], worker="worker_1"),
        )
        return Step(at, Mode.TRAIN, at, 0.0, {"gradients": found, "weights": (), "losses": ()})

    verdict = judged([*(step(at, 1.0) for at in range(5)), step(5, 200.0)])[-1]
    assert (verdict.tensor, verdict.worker) == ("b", "worker_1")
    assert verdict.detail == (
        "the gradients are 200 times as large as in the 5 saves before, with a norm of 1e+03, and "
        "the loss does not improve; b has the largest share"
    )
    assert dict(verdict.evidence) == {"growth": 200.0, "norm": 1000.0, "limit": 30.0}


@pytest.mark.parametrize("content", [TensorSummary(abs_mean=1.0), "text"])
def test_nothing_to_judge(steps: Any, content: Any) -> None:
    (verdict,) = judged(steps([content]))
    assert verdict.outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("content", [np.zeros((0, 3)), 5, np.array([2, 3], np.int32)])
def test_odd_tensors(steps: Any, content: Any) -> None:
    assert not fired(judged(steps([content] * 7)))
