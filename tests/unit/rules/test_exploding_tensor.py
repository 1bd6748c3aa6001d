from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tocsin.model import Mode, Outcome, Reason, Role, TensorSummary, Verdict
from tocsin.rules import Step, Tensor
from tocsin.rules.gradients.exploding_tensor import ExplodingTensor

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, VIOLATION, fired, judged

NAN, INF = float("nan"), float("inf")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


@pytest.mark.parametrize(
    ("content", "only_nan", "expected"),
    [
        ([1.0, 2.0], False, HEALTHY),
        ([1.0, NAN], False, VIOLATION),
        ([1.0, NAN], True, VIOLATION),
        ([1.0, INF], False, VIOLATION),
        ([1.0, -INF], False, VIOLATION),
        ([1.0, -INF], True, HEALTHY),
        ([NAN, NAN], False, VIOLATION),
        ([NAN, INF], True, VIOLATION),
        (NAN, False, VIOLATION),
        (1.0, False, HEALTHY),
        ([], False, HEALTHY),
        (np.zeros((0, 3), np.float32), False, HEALTHY),
        (np.zeros((2, 0)), True, HEALTHY),
        (np.array([1, 2], np.int64), False, HEALTHY),
        (np.array([True]), False, HEALTHY),
        (np.array([65504, 0], np.float16) * np.float16(1), False, HEALTHY),
        (np.array([1 + 1j, complex(NAN, 0)]), False, VIOLATION),
        (np.array(["text"]), False, NOT_APPLICABLE),
        (TensorSummary(size=0), False, NOT_APPLICABLE),
        (TensorSummary(mean=1.0), False, NOT_APPLICABLE),
        (TensorSummary(nan=0), False, HEALTHY),
        (TensorSummary(nan=0, posinf=2), False, VIOLATION),
    ],
)
def test_one_tensor(make_step: MakeStep, content: Any, only_nan: bool, expected: Outcome) -> None:
    rule = ExplodingTensor(only_nan=only_nan)
    state, verdict = rule.evaluate({}, make_step("tensors", 0, {"w": content}))
    assert verdict.outcome is expected
    assert state == {}


@pytest.mark.parametrize("mode", Mode)
def test_every_mode_is_watched(make_step: MakeStep, mode: Mode) -> None:
    step = make_step("tensors", 9, {"w": [NAN]}, mode=mode, mode_step=0)
    assert ExplodingTensor().evaluate({}, step)[1].violation


@pytest.mark.parametrize(
    ("content", "detail", "evidence"),
    [
        (
            [NAN, NAN, 1.0],
            "2 NaN among the 3 values of w",
            {"nan": 2, "infinite": 0, "size": 3},
        ),
        (
            [INF, -INF, 1.0],
            "2 infinite among the 3 values of w",
            {"infinite": 2, "nan": 0, "size": 3},
        ),
        (
            [NAN, INF],
            "1 NaN and 1 infinite among the 2 values of w",
            {"nan": 1, "infinite": 1, "size": 2},
        ),
        (
            TensorSummary(nan=1, posinf=0, neginf=0),
            "1 NaN among the values of w",
            {"nan": 1, "infinite": 0},
        ),
    ],
)
def test_says_what_was_found(
    make_step: MakeStep, content: Any, detail: str, evidence: dict[str, int]
) -> None:
    _, verdict = ExplodingTensor().evaluate({}, make_step("tensors", 0, {"w": content}))
    assert verdict.reason is Reason.NOT_FINITE
    assert verdict.detail == detail
    assert list(verdict.evidence.items()) == list(evidence.items())  # what was found comes first


def test_names_the_first_bad_tensor_and_its_worker(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    found = [
        make_tensor("a", TensorSummary()),
        make_tensor("a", [1.0], worker="worker_1"),
        make_tensor("b", [INF], worker="worker_1"),
        make_tensor("c", [NAN], worker="worker_2"),
    ]
    _, verdict = ExplodingTensor().evaluate({}, make_step("tensors", 3, found))
    assert (verdict.tensor, verdict.worker) == ("b", "worker_1")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ExplodingTensor(), NOT_APPLICABLE),
        (ExplodingTensor(tensor_regex=("trees/",)), VIOLATION),
        (ExplodingTensor(collection_names=("trees",)), VIOLATION),
    ],
)
def test_trees_are_watched_only_when_named(
    make_step: MakeStep, make_tensor: MakeTensor, rule: ExplodingTensor, expected: Outcome
) -> None:
    tree = make_tensor("trees/0", [NAN], role=Role.TREE)
    assert rule.evaluate({}, make_step("tensors", 0, [tree]))[1].outcome is expected


@pytest.mark.parametrize(
    ("name", "role", "kind", "value", "lenient", "strict"),
    [
        ("gradient/w", Role.GRADIENT, None, INF, VIOLATION, VIOLATION),  # no loss says otherwise
        ("weight", Role.WEIGHT, None, INF, VIOLATION, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", -INF, HEALTHY, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", INF, VIOLATION, VIOLATION),
        ("softmax0_input_0", Role.ACTIVATION_INPUT, "softmax", NAN, VIOLATION, VIOLATION),
        ("relu0_input_0", Role.ACTIVATION_INPUT, "relu", -INF, VIOLATION, VIOLATION),
        ("causal_mask", None, None, -INF, HEALTHY, VIOLATION),
        ("input_0", Role.INPUT, None, NAN, NOT_APPLICABLE, VIOLATION),
        ("labels", Role.LABEL, None, NAN, NOT_APPLICABLE, VIOLATION),
    ],
)
def test_what_healthy_runs_hold(
    make_step: MakeStep,
    make_tensor: MakeTensor,
    name: str,
    role: Role | None,
    kind: str | None,
    value: float,
    lenient: Outcome,
    strict: Outcome,
) -> None:
    step = make_step("tensors", 0, [replace(make_tensor(name, [1.0, value], role=role), kind=kind)])
    assert ExplodingTensor().evaluate({}, step)[1].outcome is lenient
    assert ExplodingTensor(lenient=False).evaluate({}, step)[1].outcome is strict
    assert ExplodingTensor(tensor_regex=(".*",)).evaluate({}, step)[1].outcome is strict


def test_gradients_that_overflow_again_and_again(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    """Loss scaling skips some steps; an evaluation in between changes nothing."""
    steps = []
    for at, content in enumerate(([INF], [INF], [1.0], [INF], None, [NAN], [INF], [INF])):
        loss = make_tensor("loss", 0.5, role=Role.LOSS)
        found = [] if content is None else [make_tensor("grad/w", content, role=Role.GRADIENT)]
        steps.append(make_step("tensors", at, [*found, loss]))
    assert fired(judged(ExplodingTensor(patience=3), steps)) == [6, 7]


def trained(
    make_step: MakeStep, make_tensor: MakeTensor, *saves: Mapping[Role, Any]
) -> list[Verdict]:
    """The verdicts on training steps with one tensor of each role; of INTERVAL its summary."""
    steps = []
    for at, contents in enumerate(saves):
        found = [make_tensor(str(role), each, role=role) for role, each in contents.items()]
        by_role = {each.role: each for each in found}
        losses = tuple(by_role[role] for role in (Role.LOSS,) if role in by_role)
        between = tuple(by_role[role] for role in (Role.INTERVAL,) if role in by_role)
        rates = tuple(by_role[role] for role in (Role.LEARNING_RATE,) if role in by_role)
        step = make_step("tensors", at, found, mode=Mode.TRAIN)
        reads = {"losses": losses, "between": between, "rates": rates}
        steps.append(replace(step, tensors={**step.tensors, **reads}))
    return judged(ExplodingTensor(), steps)


LOSS, WEIGHT, RATE, INTERVAL = Role.LOSS, Role.WEIGHT, Role.LEARNING_RATE, Role.INTERVAL
FORMULA = (
    "loss is NaN; all that was captured before it is finite, weights included: look for a division "
    "by 0, a root, a logarithm or an overflow in the loss"
)


@pytest.mark.parametrize(
    ("saves", "detail"),
    [
        pytest.param(
            [
                {LOSS: 40.0, WEIGHT: [0.1], RATE: 0.5},
                {LOSS: NAN, WEIGHT: [NAN], RATE: 0.5, INTERVAL: TensorSummary(max=900000000.0)},
            ],
            "loss is NaN; before that, the loss rose from 40 to 9e+08: the learning rate of 0.5 is "
            "too large",
            id="a rate that diverges between two saves",
        ),
        pytest.param(
            [{LOSS: value, WEIGHT: [0.1]} for value in (2.0, 300.0)] + [{LOSS: INF}],
            "loss is infinite; before that, the loss rose from 2 to 300: the learning rate is too "
            "large",
            id="a rate that diverges from save to save",
        ),
        pytest.param(
            [
                {LOSS: 2.0, WEIGHT: [0.1]},
                {LOSS: NAN, WEIGHT: [NAN], INTERVAL: TensorSummary(max=2.1, posinf=1)},
            ],
            "loss is NaN; the loss jumped from 2 to infinity in one step: it overflows or takes a "
            "logarithm of 0, or the learning rate is far too large",
            id="a loss that overflows in one step",
        ),
        pytest.param([{LOSS: NAN, WEIGHT: [0.1]}], FORMULA, id="a mean over no samples"),
        pytest.param(
            [{LOSS: 0.7, WEIGHT: [0.1]}, {LOSS: NAN, WEIGHT: [0.2], Role.GRADIENT: [NAN]}],
            FORMULA,
            id="a logarithm of 0 after a while",
        ),
        pytest.param(
            [{LOSS: 0.7, WEIGHT: [0.1]}, {LOSS: NAN, WEIGHT: [NAN]}],
            "loss is NaN; the weights are not finite either: an earlier gradient or batch was not, "
            "though the loss was 0.7",
            id="the gradient of a root at 0",
        ),
        pytest.param(
            [{LOSS: NAN, WEIGHT: [0.1], Role.PREDICTION: [INF]}],
            "loss is NaN",
            id="a network that overflows by itself",
        ),
        pytest.param(
            [{LOSS: NAN, WEIGHT: [0.1], Role.INPUT: [NAN]}], "loss is NaN", id="NaN in the data"
        ),
        pytest.param([{LOSS: 0.7}, {LOSS: NAN}], "loss is NaN", id="a loss and nothing else"),
    ],
)
def test_says_where_a_training_loss_became_not_finite(
    make_step: MakeStep, make_tensor: MakeTensor, saves: list[Mapping[Role, Any]], detail: str
) -> None:
    assert trained(make_step, make_tensor, *saves)[-1].detail == detail


def test_says_what_training_was_like_before_an_evaluation(
    make_step: MakeStep, make_tensor: MakeTensor
) -> None:
    loss, rate = (make_tensor(str(role), 2.0, role=role) for role in (LOSS, RATE))
    training = make_step("tensors", 0, [loss, rate], mode=Mode.TRAIN)
    reads = {**training.tensors, "losses": (loss,), "rates": (rate,)}
    lost = make_step("tensors", 10, [make_tensor("loss", NAN, role=LOSS)], mode=Mode.EVAL)

    _, verdict = judged(ExplodingTensor(), [replace(training, tensors=reads), lost])

    assert verdict.detail == (
        "loss is NaN; the last training loss was 2: later updates diverged because the learning "
        "rate of 2 is too large, or the evaluation itself overflows or divides by 0"
    )
