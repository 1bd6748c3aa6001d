from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tocsin.model import Outcome, Reason, TensorSummary
from tocsin.rules import PROFILES, BadRule, Step, Tensor, build

from tests.unit.rules.judging import fired, judging

MakeStep = Callable[..., Step]
judged = judging("WeightUpdateRatio")


def weight(ratio: float | None, name: str = "w", worker: str = "worker_0") -> Tensor:
    """Four elements of mean magnitude 2, that have moved by ``ratio`` of it."""
    moved = None if ratio is None else 8.0 * ratio
    return Tensor(name, worker, TensorSummary(size=4, l1=8.0, update_l1=moved))


def a_step(
    make_step: MakeStep,
    number: int,
    found: object,
    gradients: tuple[Tensor, ...] = (),
) -> Step:
    step = make_step("weights", number, found)
    return replace(step, tensors={**step.tensors, "gradients": gradients})


@pytest.mark.parametrize(
    ("ratios", "parameters", "expected"),
    [
        pytest.param([None, 1e-3, 1e-3], {}, [], id="as it should be"),
        pytest.param([None, 11.0, 1e-3, 9.9], {}, [1], id="too large"),
        pytest.param([None, 0.0, 1e-9, 1e-3], {}, [1, 2], id="frozen, too small"),
        pytest.param([11.0, 11.0], {}, [1], id="the first has nothing before it"),
        pytest.param([None, 11.0], {"num_steps": "10"}, [1], id="as near as allowed"),
        pytest.param([None, 11.0], {"num_steps": "9"}, [], id="too far back"),
        pytest.param([None, 0.5], {"large_threshold": "0.4"}, [1], id="a lower bound"),
        pytest.param([None, 0.0], {"small_threshold": "0"}, [], id="no lower bound"),
        pytest.param([None, 9.0], {"epsilon": "2", "large_threshold": "4"}, [1], id="9 / 2"),
        pytest.param([None, 9.0], {"epsilon": "2", "large_threshold": "5"}, [], id="not 9 / 1"),
        pytest.param([None, None, None], {}, [], id="not known"),
        pytest.param([1e-3], {}, [], id="one step"),
    ],
)
def test_as_amazon_documents_it(
    make_step: MakeStep,
    ratios: list[float | None],
    parameters: dict[str, str],
    expected: list[int],
) -> None:
    steps = [a_step(make_step, 10 * at, [weight(ratio)]) for at, ratio in enumerate(ratios)]
    assert fired(judged(steps, "sagemaker", **parameters)) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        pytest.param([1e-3] * 30, [], id="as it should be"),
        pytest.param([1.0] * 4 + [1e-3] * 4, [1, 2, 3], id="erratic"),
        pytest.param([0.0] * 40, [], id="frozen"),
        pytest.param([9e-8] * 24, [20, 21, 22, 23], id="too small from the start, per step"),
        pytest.param([1.1e-7] * 24, [], id="small enough"),
        pytest.param([1e-3] + [1e-3] + [1e-12] * 40, [], id="converged"),
        pytest.param([1e-12] * 10 + [1e-3] + [1e-12] * 40, [], id="woke up in time"),
    ],
)
def test_recommended_knows_healthy_runs(
    make_step: MakeStep, ratios: list[float], expected: list[int]
) -> None:
    steps = [a_step(make_step, 10 * at, [weight(ratio)]) for at, ratio in enumerate(ratios)]
    assert fired(judged(steps, "recommended")) == expected


@pytest.mark.parametrize(
    ("begun", "size", "profile", "expected"),
    [
        (0.0, 1e-5, "recommended", []),  # zeros that stay near zero
        (0.0, 1e-5, "sagemaker", [2, 3]),
        (0.0, 1.0, "recommended", [2, 3]),  # they grew
        (1.0, 1e-5, "recommended", [2, 3]),  # they shrank
    ],
)
def test_weights_that_began_as_zeros(
    make_step: MakeStep, begun: float, size: float, profile: str, expected: list[int]
) -> None:
    def saved(at: int) -> Tensor:
        l1 = begun if at < 2 else 4 * size
        moved = 0.001 * l1 if at < 2 else 8 * size
        return Tensor("shift", "worker_0", TensorSummary(size=4, l1=l1, update_l1=moved))

    steps = [a_step(make_step, at, [weight(1e-3), weight(1e-3, "v"), saved(at)]) for at in range(4)]
    given = {"large_threshold": 0.9, "small_threshold": 0}
    assert fired(judged(steps, profile, **given)) == expected


def test_a_single_number_may_cross_0(make_step: MakeStep) -> None:
    """As the learned part of a graph network's sum, which begins at 0."""
    summary = TensorSummary(size=1, l1=0.01, update_l1=0.02)
    steps = [a_step(make_step, at, [Tensor("layer.eps", "worker_0", summary)]) for at in range(9)]
    assert not fired(judged(steps))
    assert fired(judged(steps, large_threshold="1", lenient="false"))


def test_each_weight_by_itself(make_step: MakeStep) -> None:
    found = [weight(1e-3, "a"), weight(1e-10, "b"), weight(1e-3, "b", "worker_1")]
    verdict = judged([a_step(make_step, at, found) for at in range(21)], "recommended")[-1]
    assert (verdict.tensor, verdict.worker, verdict.reason) == (
        "b",
        "worker_0",
        Reason.CHANGED_TOO_LITTLE,
    )
    assert verdict.detail == "update/weight ratio 1e-10 per step of b is below 1e-08"
    assert dict(verdict.evidence) == {"ratio": pytest.approx(1e-10), "threshold": 1e-8}


def test_reports_the_largest(make_step: MakeStep) -> None:
    found = [weight(12.0, "a"), weight(99.0, "b"), weight(0.0, "c")]
    verdict = judged([a_step(make_step, at, found) for at in range(2)], "sagemaker")[-1]
    assert (verdict.tensor, verdict.reason) == ("b", Reason.CHANGED_TOO_MUCH)
    assert verdict.detail == "update/weight ratio 99 of b is above 10"


@pytest.mark.parametrize(
    "summary",
    [
        TensorSummary(),
        TensorSummary(size=0, l1=0.0, update_l1=0.0),
        TensorSummary(size=4, update_l1=1.0),
        TensorSummary(size=4, l1=1.0),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_odd_tensors(make_step: MakeStep, summary: TensorSummary, profile: str) -> None:
    steps = [a_step(make_step, at, {"w": summary}) for at in (0, 1, 1, 0, 9)]
    assert {verdict.outcome for verdict in judged(steps, profile)} == {Outcome.UNDECIDED}


def test_zeros_that_stay_have_ratio_0(make_step: MakeStep) -> None:
    zeros = TensorSummary(size=4, l1=0.0, update_l1=0.0)
    steps = [a_step(make_step, at, {"w": zeros}) for at in range(2)]
    assert judged(steps, "sagemaker")[-1].evidence["ratio"] == 0.0


@pytest.mark.parametrize("small", [0.9, 10.0])
def test_the_bounds_must_be_in_order(small: float) -> None:
    with pytest.raises(BadRule, match=f"{small}, but must be below large_threshold, 0.9"):
        build("WeightUpdateRatio", {"small_threshold": small})


@pytest.mark.parametrize(
    ("interval", "profile", "expected"),
    [(100, "recommended", [1, 2]), (1000, "recommended", []), (1000, "sagemaker", [1, 2])],
)
def test_weights_may_be_others_after_a_thousand_steps(
    make_step: MakeStep, interval: int, profile: str, expected: list[int]
) -> None:
    """In balance with weight decay each direction is learned again: the ratio tends to 1.4."""
    steps = [a_step(make_step, interval * at, [weight(1.4)]) for at in range(3)]
    assert fired(judged(steps, profile, large_threshold=0.9)) == expected


@pytest.mark.parametrize(
    ("profile", "named", "expected"),
    [
        ("recommended", {}, []),
        ("recommended", {"tensor_regex": "codebook"}, [1, 2]),
        ("sagemaker", {}, [1, 2]),
    ],
)
def test_a_bias_among_the_weights(
    make_step: MakeStep, profile: str, named: dict[str, str], expected: list[int]
) -> None:
    """As in a history that keeps all parameters in one collection."""
    found = [weight(1e-3), weight(11.0, "codebook.bias")]
    steps = [a_step(make_step, at, found) for at in range(3)]
    assert fired(judged(steps, profile, **named)) == expected


@pytest.mark.parametrize(
    ("profile", "named", "expected"),
    [
        ("recommended", {}, []),
        ("recommended", {"tensor_regex": "codebook"}, [1, 2]),
        ("sagemaker", {}, [1, 2]),
    ],
)
def test_a_weight_that_averages_move(
    make_step: MakeStep, profile: str, named: dict[str, str], expected: list[int]
) -> None:
    """A codebook of moving averages has no gradient; the other weights have one."""
    trained = Tensor("gradient/w", "worker_0", TensorSummary(l2=1.0))
    found = [weight(1e-3), weight(11.0, "codebook")]
    steps = [a_step(make_step, at, found, (trained,)) for at in range(3)]
    assert fired(judged(steps, profile, **named)) == expected
