from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tocsin.model import Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import BadRule, Step, Tensor, build
from tocsin.rules.gradients.vanishing_gradient import VanishingGradient

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION

NAN, INF = float("nan"), float("inf")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("content", "threshold", "expected"),
    [
        ([1e-3, -1e-3], 1e-7, HEALTHY),
        ([1e-9, -1e-9], 1e-7, VIOLATION),
        ([1.0, -1.0], 0.5, HEALTHY),  # of |g|: the plain mean is 0
        ([1e-7], 1e-7, HEALTHY),  # below, not at
        ([math.nextafter(1e-7, 0)], 1e-7, VIOLATION),
        ([0.0, 0.0], 1e-300, VIOLATION),
        (1e-9, 1e-7, VIOLATION),
        (np.array(0.5, np.float16), 1e-7, HEALTHY),
        ([], 1e-7, NOT_APPLICABLE),
        (np.zeros((0, 4)), 1e-7, NOT_APPLICABLE),
        ([NAN, NAN], 1e-7, NOT_APPLICABLE),
        ([INF], 1e-7, NOT_APPLICABLE),
        ([NAN, 1e-9, INF], 1e-7, VIOLATION),  # over what is finite
        ([NAN, 1.0], 1e-7, HEALTHY),
        (np.array([0, 0], np.int32), 1e-7, VIOLATION),
        (np.array([0, 3], np.int32), 1e-7, HEALTHY),
        (np.array([5e-324]), 1e-7, VIOLATION),
        (np.array(["text"]), 1e-7, NOT_APPLICABLE),
        (TensorSummary(mean=0.0), 1e-7, NOT_APPLICABLE),
        (TensorSummary(abs_mean=1e-9), 1e-7, VIOLATION),
        ([1.0], 20.0, VIOLATION),
    ],
)
def test_one_tensor(make_step: MakeStep, content: Any, threshold: float, expected: Outcome) -> None:
    rule = VanishingGradient(threshold=threshold)
    state, verdict = rule.evaluate({}, make_step("gradients", 0, {"gradient/w": content}))
    assert verdict.outcome is expected
    assert state == {}


def test_reports_the_smallest_and_the_numbers_that_decided(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    found = [
        make_tensor("gradient/Net_fc1.weight", [3e-9, -3.2e-9]),
        make_tensor("gradient/Net_fc2.weight", [5e-9]),
        make_tensor("gradient/Net_fc1.weight", [1.0], worker="worker_1"),
        make_tensor("gradient/Net_fc3.weight", []),
    ]
    _, verdict = VanishingGradient(threshold=1e-7).evaluate({}, make_step("gradients", 120, found))
    assert (verdict.tensor, verdict.worker) == ("gradient/Net_fc1.weight", "worker_0")
    assert verdict.reason is Reason.BELOW_THRESHOLD
    assert verdict.detail == (
        "the mean |gradient| of gradient/Net_fc1.weight is 3.1e-09, below the threshold 1e-07"
    )
    assert dict(verdict.evidence) == {"abs_mean": pytest.approx(3.1e-9), "threshold": 1e-7}


def test_a_batch_without_any_gradient_is_not_judged(make_step: MakeStep) -> None:
    """A triplet loss is 0 where all triplets are far enough apart."""
    zeros = [0.0, 0.0]
    step = make_step("gradients", 0, {"gradient/a.weight": zeros, "gradient/b.weight": zeros})
    assert VanishingGradient().evaluate({}, step)[1].outcome is HEALTHY


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    ("first", "expected"), [(1e-3, HEALTHY), (3e-6, HEALTHY), (5e-7, VIOLATION), (0.0, VIOLATION)]
)
def test_a_layer_beside_the_others_of_its_worker(
    make_step: MakeStep, make_tensor: MakeTensor, first: float, scale: float, expected: Outcome
) -> None:
    found = [
        make_tensor("gradient/fc1.weight", 2 * [first * scale]),
        make_tensor("gradient/fc2.weight", 2 * [scale]),
        make_tensor("gradient/fc1.weight", 2 * [1e9 * scale], worker="worker_1"),
    ]
    assert after_eight(make_step("gradients", 0, found)).outcome is expected


def test_a_gradient_of_zero_counts_if_it_lasts(make_step: MakeStep) -> None:
    """A batch of one sample may leave all units of a layer off."""
    zero, some = ({"gradient/a": 2 * [number], "gradient/b": [1.0, 1.0]} for number in (0.0, 1e-3))
    state: dict[str, Any] = {}
    found = []
    for at, each in enumerate([zero] * 7 + [some] + [zero] * 8):
        state, verdict = VanishingGradient().evaluate(state, make_step("gradients", at, each))
        found.append(verdict.outcome)
    assert found == [HEALTHY] * 15 + [VIOLATION]


def test_a_single_number_may_be_at_its_optimum(make_step: MakeStep) -> None:
    found = {"gradient/offset": 1e-9, "gradient/scale": [1e-9], "gradient/w": [1.0, 1.0]}
    assert after_eight(make_step("gradients", 0, found)).outcome is HEALTHY


@pytest.mark.parametrize(("number", "expected"), [(1e-9, HEALTHY), (1.0, VIOLATION)])
def test_others_are_compared_with_a_single_number(
    make_step: MakeStep, number: float, expected: Outcome
) -> None:
    """A line through points gets there: both gradients become tiny."""
    step = make_step("gradients", 0, {"gradient/w": [1e-9, 1e-9], "gradient/b": [number]})
    assert after_eight(step).outcome is expected


def after_eight(step: Step) -> Verdict:
    """The verdict on a step that comes eight times."""
    state: dict[str, Any] = {}
    for _ in range(8):
        state, verdict = VanishingGradient().evaluate(state, step)
    return verdict


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ("small", "parameter threshold: expected a number"),
        ([1e-7], "parameter threshold: expected a number"),
        (10**400, "parameter threshold: number out of range"),
    ],
)
def test_refused_thresholds(threshold: Any, message: str) -> None:
    with pytest.raises(BadRule, match=r"^VanishingGradient: ") as caught:
        build("VanishingGradient", {"threshold": threshold})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("gradient/fc.bias", {}, NOT_APPLICABLE),
        ("gradient/batchnorm0_beta", {}, NOT_APPLICABLE),
        ("gradient/fc.bias", {"tensor_regex": "gradient"}, VIOLATION),
        ("gradient/fc.weight", {}, VIOLATION),
    ],
)
def test_gradients_of_biases_count_only_if_they_are_selected(
    make_step: MakeStep, name: str, parameters: dict[str, Any], expected: Outcome
) -> None:
    rule, _ = build("VanishingGradient", parameters)
    _, verdict = rule.evaluate({}, make_step("gradients", 0, {name: [1e-9, 1e-9]}))
    assert verdict.outcome is expected


@pytest.mark.parametrize(
    ("rows", "profile", "expected"),
    [
        (1, "recommended", HEALTHY),  # 1e-3 in one row of 100,000
        (1, "sagemaker", VIOLATION),
        (0, "recommended", VIOLATION),
    ],
)
def test_an_embedding_of_which_few_rows_are_used(
    make_step: MakeStep, rows: int, profile: str, expected: Outcome
) -> None:
    size, touched = 400_000, 4 * rows
    gradient = TensorSummary(size=size, zeros=size - touched, abs_mean=1e-3 * touched / size)
    rule, _ = build("VanishingGradient", {}, profile)
    step = make_step("gradients", 0, {"gradient/embedding.weight": gradient})
    assert rule.evaluate({}, step)[1].outcome is expected


def test_loras_a_waits_for_its_b(make_step: MakeStep) -> None:
    found = {"gradient/q.lora_A.default.weight": 2 * [1e-12], "gradient/q.lora_B.weight": 2 * [0.1]}
    step = make_step("gradients", 0, found)
    assert VanishingGradient().evaluate({}, step)[1].outcome is HEALTHY


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ({"experts.0.w": 0.0, "experts.1.w": 0.1, "gate.w": 0.2}, HEALTHY),
        ({"experts.0.w": 0.0, "experts.1.w": 0.0, "gate.w": 0.2}, VIOLATION),
        ({"experts.0.w": 1e-9, "experts.1.w": 0.1, "gate.w": 0.2}, VIOLATION),
        ({"experts.0.w": 0.0, "experts.1.w": 0.1, "gate.w": 0.0}, VIOLATION),
        ({"expertise.w": 0.0, "experts.1.w": 0.1}, VIOLATION),
    ],
)
def test_an_expert_may_get_no_sample(
    gradients: dict[str, float], expected: Outcome, make_step: MakeStep
) -> None:
    found = {f"gradient/{name}": [value, value] for name, value in gradients.items()}
    assert after_eight(make_step("gradients", 0, found)).outcome is expected


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ({"rnn.weight_hh_l0_reverse": 0.0, "rnn.weight_ih_l0_reverse": 0.1}, HEALTHY),
        ({"lstm/lstm_cell/recurrent_kernel": 0.0, "lstm/lstm_cell/kernel": 0.1}, HEALTHY),
        ({"rnn.weight_hh_l0": 1e-9, "rnn.weight_ih_l0": 0.1}, VIOLATION),
        ({"rnn.weight_hh_l0": 0.0, "rnn.weight_ih_l0": 0.0, "out.weight": 0.1}, VIOLATION),
    ],
)
def test_a_series_of_one_step_has_a_state_of_zeros(
    gradients: dict[str, float], expected: Outcome, make_step: MakeStep
) -> None:
    found = {f"gradient/{name}": [value, value] for name, value in gradients.items()}
    assert after_eight(make_step("gradients", 0, found)).outcome is expected


def test_many_gradients_are_judged_in_linear_time(make_step: MakeStep) -> None:
    def seconds(tensors: int) -> float:
        step = make_step("gradients", 0, {f"gradient/w{n}": [1.0, 2.0] for n in range(tensors)})
        begun = time.thread_time()
        VanishingGradient().evaluate({}, step)
        return time.thread_time() - begun

    few, many = (min(seconds(tensors) for _ in range(3)) for tensors in (250, 4000))
    assert many < 80 * few  # 16 times as many: 256 times as long if each meets each
