from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Severity, TensorSummary, Verdict
from tocsin.rules import PROFILES, SAGEMAKER, Step, Tensor, build
from tocsin.tensors import summarize

from tests.unit.rules.judging import judging

NAN = float("nan")
judged = judging("PoorWeightInitialization")
RANDOM = np.random.default_rng(0).normal(0, 0.2, (50, 50))


def tensors(found: Mapping[str, TensorSummary | Any]) -> tuple[Tensor, ...]:
    made = []
    for name, content in found.items():
        if isinstance(content, TensorSummary):
            made.append(Tensor(name, "worker_0", content))
        else:
            value = np.asarray(content)
            made.append(Tensor(name, "worker_0", summarize(value), value.shape))
    return tuple(made)


def spread(width: float) -> TensorSummary:
    """A gradient of that range, whose standard deviation says the same."""
    ends = {"0.05": -width / 2, "0.95": width / 2}
    return TensorSummary(size=100, variance=width**2, quantiles=ends)


def save(
    at: int,
    *,
    loss: float | None = None,
    inputs: Iterable[float | None] = (),
    outputs: Iterable[float] = (),
    ranges: Iterable[float] = (),
    weights: Mapping[str, Any] | None = None,
    biases: Mapping[str, Any] | None = None,
    mode: Mode = Mode.TRAIN,
) -> Step:
    """A step with a loss, the variances of activations, the ranges of gradients, and weights."""
    losses = {} if loss is None else {"loss": np.array([loss])}
    found = {
        "inputs": tensors({f"in{n}": TensorSummary(variance=v) for n, v in enumerate(inputs)}),
        "outputs": tensors({f"out{n}": TensorSummary(variance=v) for n, v in enumerate(outputs)}),
        "gradients": tensors({f"g{n}": spread(width) for n, width in enumerate(ranges)}),
        "losses": tensors(losses),
        "weights": tensors(weights or {}),
        "biases": tensors(biases or {}),
    }
    return Step(at, mode, at, 1000.0 + at, found)


def reasons(verdicts: Iterable[Verdict]) -> dict[int, Reason]:
    return {at: verdict.reason for at, verdict in enumerate(verdicts) if verdict.violation}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([save(0, inputs=[1, 10])], {}, id="at the threshold"),
        pytest.param([save(0, inputs=[1, 5, 10.1])], {0: Reason.IMBALANCED}, id="variances"),
        pytest.param([save(0, inputs=[10.1, 1])], {0: Reason.IMBALANCED}, id="fading"),
        pytest.param([save(0, inputs=[0, 1])], {0: Reason.IMBALANCED}, id="one without any"),
        pytest.param([save(0, inputs=[0, 0])], {}, id="all without any"),
        pytest.param([save(0, inputs=[100])], {}, id="one layer"),
        pytest.param([save(0, inputs=[1, None])], {}, id="one that is NaN"),
        pytest.param([save(0, outputs=[1, 11])], {0: Reason.IMBALANCED}, id="outputs if need be"),
        pytest.param([save(0, inputs=[1, 2], outputs=[1, 11])], {}, id="inputs go before outputs"),
        pytest.param([save(0, ranges=[1, 0.001])], {}, id="gradients"),
        pytest.param(
            [save(0, ranges=[1, 0.0009])], {0: Reason.BELOW_THRESHOLD}, id="of one gradient"
        ),
        pytest.param([save(at, loss=2.0) for at in range(8)],
            dict.fromkeys([5, 6, 7], Reason.NOT_DECREASING), id="loss"),
        pytest.param([save(at, loss=2.0 - at / 9) for at in range(9)], {}, id="loss falls"),
        pytest.param([save(at, loss=NAN) for at in range(7)],
            dict.fromkeys([5, 6], Reason.NOT_DECREASING), id="loss is NaN"),
        pytest.param(
            [save(at, inputs=[1, 2 if at < 10 else 99]) for at in range(12)], {}, id="too late"
        ),
    ],
)  # fmt: skip
def test_any_sign_fires_in_amazons_reading(steps: list[Step], expected: dict[int, Reason]) -> None:
    assert reasons(judged(steps, SAGEMAKER)) == expected


BAD = {"inputs": [1.0, 1e4]}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([save(at, **BAD) for at in range(9)], {}, id="variances alone"),
        pytest.param([save(at, loss=2.0) for at in range(9)], {}, id="loss alone"),
        pytest.param([save(at, ranges=[0.0] * 9) for at in range(9)], {}, id="ranges alone"),
        pytest.param([save(at, loss=2.0, **BAD) for at in range(7)],
            dict.fromkeys([5, 6], Reason.IMBALANCED), id="variances and loss"),
        pytest.param([save(at, loss=2.0, ranges=[1e-9] * 2 + [1]) for at in range(7)],
            dict.fromkeys([5, 6], Reason.BELOW_THRESHOLD), id="ranges and loss"),
        pytest.param([save(at, loss=2.0, ranges=[1e-9, 1]) for at in range(7)], {},
            id="half of the ranges"),
        pytest.param([save(at, loss=2.0, ranges=[0, 0, 1]) for at in range(7)], {},
            id="a head that begins at zero"),
        pytest.param([save(at, loss=2.0, inputs=[1.0, 1e4 if at else 2.0]) for at in range(9)], {},
            id="well at first"),
        pytest.param([save(0, loss=2.0), *(save(at, loss=2.0, **BAD) for at in range(1, 7))],
            dict.fromkeys([5, 6], Reason.IMBALANCED), id="activations from the second save on"),
        pytest.param([save(at, loss=2.0 - at / 9, **BAD) for at in range(9)], {},
            id="learns all the same"),
        pytest.param([save(7, loss=2.0, **BAD)], {}, id="one step"),
    ],
)  # fmt: skip
def test_recommended_wants_two_signs(steps: list[Step], expected: dict[int, Reason]) -> None:
    assert reasons(judged(steps, "recommended")) == expected


ZERO, CONSTANT, ONES = np.zeros((4, 3)), np.full((4, 3), np.float32(0.1)), np.ones(7)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"a": ZERO, "b": ZERO}, Reason.CONSTANT),
        ({"a": CONSTANT, "b": CONSTANT, "norm": ONES}, Reason.CONSTANT),
        ({"a": ZERO, "b": ZERO, "c": RANDOM}, Reason.CONSTANT),
        ({"a": ZERO}, None),  # logistic regression may begin at zero
        ({"a": RANDOM, "b": ZERO}, None),  # and so may a head
        ({"a": RANDOM, "n1": ONES, "n2": ONES, "n3": np.zeros(5)}, None),
        ({"a": ONES, "b": np.array(1.0), "c": np.ones((1, 1)), "d": np.ones((1, 1))}, None),
        ({"a": RANDOM, "b": RANDOM}, None),
        ({"a": 100 * RANDOM, "b": 100 * RANDOM}, Reason.ABOVE_THRESHOLD),
        ({"a": 100 * RANDOM, "b": RANDOM}, None),  # as an embedding does
        ({"a": 100 * RANDOM.reshape(25, 25, 2, 2)}, Reason.ABOVE_THRESHOLD),
        ({"a": 100 * RANDOM[:, :2]}, Reason.ABOVE_THRESHOLD),
        ({"a": np.full((4, 3), NAN), "b": np.zeros((0, 3))}, None),
        ({"a": np.array([["x", "y"]])}, None),
        ({"a": np.zeros((3, 3), np.int32), "b": np.zeros((3, 3), np.int32)}, Reason.CONSTANT),
        ({"a": TensorSummary(), "b": TensorSummary(size=9, mean=0.0, variance=0.0)}, None),
    ],
)
def test_weights_at_the_first_save(weights: dict[str, Any], expected: Reason | None) -> None:
    verdicts = judged([save(0, weights=weights), save(1, weights=weights)], "recommended")
    assert reasons(verdicts) == ({} if expected is None else {0: expected})
    assert not reasons(judged([save(0, weights=weights)], SAGEMAKER))


WIDE = 5.2 * RANDOM  # a standard deviation of 1, of 50 inputs
FIFTY = np.zeros(50)


@pytest.mark.parametrize(
    ("weights", "biases", "expected"),
    [
        ({"a.weight": WIDE, "b.weight": WIDE}, {"a.bias": FIFTY, "b.bias": FIFTY}, True),
        ({"a/kernel": WIDE[:, :7], "b/kernel": WIDE}, {"a/bias": FIFTY[:7], "b/bias": FIFTY}, True),
        ({"a.weight": 0.8 * WIDE, "b.weight": WIDE}, {"a.bias": FIFTY, "b.bias": FIFTY}, False),
        (
            {"a.weight_ih_l0": WIDE, "b.weight": WIDE[:3].reshape(3, 2, 5, 5)},
            {"a.bias_ih_l0": FIFTY, "b.bias": FIFTY[:3]},
            True,
        ),
        ({"a.weight": WIDE, "b.weight": WIDE}, {}, False),  # embeddings
        ({"a.weight": WIDE, "b.weight": WIDE}, {"a.bias": FIFTY, "b.bias": FIFTY[:3]}, False),
        ({"a.weight": WIDE, "b.weight": RANDOM}, {"a.bias": FIFTY, "b.bias": FIFTY}, False),
        (
            {"a.weight": WIDE, "b.weight": WIDE, "c.weight": RANDOM, "d.weight": RANDOM},
            {f"{name}.bias": FIFTY for name in "abcd"},
            True,
        ),
        ({"a.weight": WIDE}, {"a.bias": FIFTY}, False),  # a single layer
        ({"a.weight": WIDE[:, :2], "b.weight": WIDE}, {"a.bias": FIFTY, "b.bias": FIFTY}, False),
        ({"a.weight": RANDOM, "b.weight": RANDOM}, {"a.bias": FIFTY, "b.bias": FIFTY}, False),
    ],
)
def test_layers_that_start_too_wide(
    weights: dict[str, Any], biases: dict[str, Any], expected: bool
) -> None:
    steps = [save(0, weights=weights, biases=biases)]
    [verdict] = judged(steps, "recommended")
    assert verdict.severity == (Severity.WARNING if expected else None)
    assert reasons([verdict]) == ({0: Reason.ABOVE_THRESHOLD} if expected else {})
    assert not reasons(judged(steps, SAGEMAKER))


def test_a_layer_of_two_workers_is_one_layer() -> None:
    step = save(0, weights={"a.weight": WIDE}, biases={"a.bias": FIFTY})
    found = {
        name: (*each, *(replace(tensor, worker="worker_1") for tensor in each))
        for name, each in step.tensors.items()
    }
    assert not reasons(judged([replace(step, tensors=found)], "recommended"))


def test_the_first_save_with_weights_may_not_be_the_first() -> None:
    steps = [save(0, loss=1.0), save(1, loss=0.9, weights={"a": ZERO, "b": ZERO})]
    assert reasons(judged(steps, "recommended")) == {1: Reason.CONSTANT}


def test_later_it_says_nothing() -> None:
    verdicts = judged([save(at, loss=1.0) for at in range(12)], "recommended")
    outcomes = [verdict.outcome for verdict in verdicts]
    assert outcomes == [Outcome.HEALTHY] * 10 + [Outcome.UNDECIDED] * 2


def test_the_standard_deviation_where_quantiles_are_not_known() -> None:
    bare = tensors({"g": TensorSummary(size=9, variance=0.0008**2)})
    one = tensors({"g": TensorSummary(size=1, variance=0.0)})
    for gradients, expected in ((bare, {0: Reason.BELOW_THRESHOLD}), (one, {})):
        step = Step(0, Mode.TRAIN, 0, 0.0, {**save(0).tensors, "gradients": gradients})
        assert reasons(judged([step], SAGEMAKER)) == expected


@pytest.mark.parametrize(
    ("steps", "profile", "tensor", "detail"),
    [
        (
            [save(0, inputs=[2, 1, 30])],
            SAGEMAKER,
            "in2",
            "variance 30 of in2 is 30 times the 1 of in1",
        ),
        (
            [save(0, ranges=[1e-3, 2e-4])],
            SAGEMAKER,
            "g1",
            "g1: a range of 0.0002 is below 0.001",
        ),
        (
            [save(at, loss=2.0) for at in range(6)],
            SAGEMAKER,
            "loss",
            "loss has reached no new low in 5 saves",
        ),
        (
            [save(at, loss=2.0, **BAD) for at in range(6)],
            "recommended",
            "in1",
            (
                "variance 1e+04 of in1 is 1e+04 times the 1 of in0; "
                "loss has reached no new low in 5 saves"
            ),
        ),
        (
            [save(0, weights={"a": RANDOM, "b": CONSTANT, "c": CONSTANT})],
            "recommended",
            "b",
            "2 of 3 weights are constant: all elements of b are 0.1",
        ),
    ],
)
def test_says_what_is_poor(steps: list[Step], profile: str, tensor: str, detail: str) -> None:
    verdict = judged(steps, profile)[-1]
    assert (verdict.tensor, verdict.worker, verdict.detail) == (tensor, "worker_0", detail)
    assert verdict.evidence


@pytest.mark.parametrize("profile", PROFILES)
def test_no_output_takes_the_place_of_inputs_that_a_user_names(profile: str) -> None:
    rule, _ = build("PoorWeightInitialization", {"activation_inputs_regex": "^mine$"}, profile)
    reads = rule.reads().tensors
    assert (reads["inputs"].roles, reads["inputs"].regex) == ((), ("^mine$",))
    found = dict.fromkeys(reads, ())
    weights = (Tensor("fc.weight", "worker_0", TensorSummary()),)
    step = Step(0, Mode.TRAIN, 0, 0.0, {**found, "weights": weights})
    assert rule.evaluate({}, step)[1].outcome is Outcome.HEALTHY
    assert "outputs" not in reads


def test_embeddings_may_be_as_large_as_they_like() -> None:
    """Rows of N(0, 1), as PyTorch makes them, are looked up and not summed."""
    rows = np.random.default_rng(0).normal(0, 1, (500, 400))
    names = ("users.embedding.weight", "items.embedding.weight")
    large = {"a.weight": rows, "b.weight": rows}
    assert reasons(judged([save(0, weights=large)], "recommended")) == {0: Reason.ABOVE_THRESHOLD}
    embeddings = dict.fromkeys(names, rows)
    assert reasons(judged([save(0, weights=embeddings)], "recommended")) == {}
