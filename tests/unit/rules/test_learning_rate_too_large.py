from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from tocsin.model import Mode, Outcome, Reason, TensorSummary, Verdict
from tocsin.rules import RECOMMENDED, BadRule, Step, Tensor, build, rule_names
from tocsin.rules.learning_rate_too_large import LearningRateTooLarge

NAN, INF = float("nan"), float("inf")


def save(
    at: int,
    move: float | None,
    *,
    gradient: float | None = 5.0,
    loss: float | None = 2.0,
    size: float | None = 10.0,
    mode: Mode = Mode.TRAIN,
) -> Step:
    """A step at which one weight of norm ``size`` has moved by ``move`` since the save before."""
    before = (Tensor("w", "worker_0", TensorSummary(l2=size)),)
    weight = Tensor("w", "worker_0", TensorSummary(l2=size, update_l2=move), previous=before)
    lost = loss is not None and math.isnan(loss)
    losses = TensorSummary(nan=int(lost), mean=None if lost else loss)
    found = {
        "weights": (weight,),
        "gradients": (Tensor("gradient/w", "worker_0", TensorSummary(l2=gradient)),),
        "losses": (Tensor("loss", "worker_0", losses),),
    }
    return Step(at, mode, at, 1000.0 + at, found)


def judged(steps: Iterable[Step], **parameters: Any) -> list[Verdict]:
    rule, _ = build("LearningRateTooLarge", parameters)
    state: Any = {}
    verdicts = []
    for step in steps:
        state, verdict = rule.evaluate(state, step)
        state = msgspec.json.decode(msgspec.json.encode(state))
        verdicts.append(verdict)
    return verdicts


def violations(verdicts: Iterable[Verdict]) -> list[int]:
    return [at for at, verdict in enumerate(verdicts) if verdict.violation]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([save(at, 5.0) for at in range(8)], [4, 5, 6, 7], id="thrown about"),
        pytest.param(
            [save(at, 5.0 if at == 1 else 0.0) for at in range(8)], [4, 5, 6, 7], id="dead after"
        ),
        pytest.param([save(10 * at, 9.0) for at in range(6)], [4, 5], id="every ten steps"),
        pytest.param([save(100 * at, 9.0) for at in range(6)], [4, 5], id="every hundred steps"),
        pytest.param(
            [
                *(save(at, 9.0, loss=2.0 * 10**at, gradient=5.0 * 10**at) for at in range(4)),
                *(save(at, None, loss=NAN, gradient=None, size=None) for at in range(4, 8)),
            ],
            [4, 5, 6, 7],
            id="grows until it is NaN",
        ),
        pytest.param([save(at, 0.6) for at in range(8)], [], id="not by much"),
        pytest.param([save(at, 5.0, gradient=0.1) for at in range(8)], [], id="not beyond"),
        pytest.param([save(at, 5.0, loss=2.0 * 0.5**at) for at in range(8)], [], id="falls"),
        pytest.param(
            [save(at, 5.0, loss=2.0 if at < 6 else 1.7) for at in range(12)],
            [4, 5, 6, 7],
            id="falls later",
        ),
        pytest.param([save(0, 5.0)] + [save(at, 0.0) for at in range(1, 8)], [], id="at the first"),
        pytest.param([save(at, None) for at in range(8)], [], id="updates not known"),
        pytest.param([save(at, 5.0, loss=NAN) for at in range(8)], [], id="never a loss"),
        pytest.param([save(at, 5.0, gradient=None) for at in range(8)], [], id="no gradient known"),
        pytest.param([save(at, 5.0, size=0.0) for at in range(8)], [], id="weights of 0"),
        pytest.param([save(3, 5.0)], [], id="one step"),
        pytest.param([save(at, 1e300, gradient=1e300) for at in range(6)], [4, 5], id="huge"),
    ],
)
def test_histories(steps: list[Step], expected: list[int]) -> None:
    assert violations(judged(steps)) == expected


def test_undecided_until_five_saves_then_healthy() -> None:
    outcomes = [verdict.outcome for verdict in judged([save(at, 0.01) for at in range(6)])]
    assert outcomes == [Outcome.UNDECIDED] * 4 + [Outcome.HEALTHY] * 2


def test_the_first_loss_that_is_known_is_the_measure() -> None:
    steps = [save(0, 5.0, loss=NAN), *(save(at, 5.0) for at in range(1, 8))]
    assert violations(judged(steps)) == [4, 5, 6, 7]


def test_one_zero_head_among_others_does_not_count(make_tensor: Any) -> None:
    """It moves by all of its size at first; the median weight does not."""

    def step(at: int) -> Step:
        known = [("a", 10.0, 0.1), ("b", 10.0, 0.1), ("head", 0.1, 0.1)]
        weights = tuple(
            Tensor(name, "worker_0", TensorSummary(l2=size, update_l2=move))
            for name, size, move in known
        )
        return Step(at, Mode.TRAIN, at, 0.0, {**save(at, 0.1).tensors, "weights": weights})

    assert not violations(judged([step(at) for at in range(8)], overshoot="0.001"))


def test_only_training_counts() -> None:
    steps = []
    for at in range(6):
        steps += [save(at, 9.0, mode=Mode.EVAL), save(at, 0.01)]
    verdicts = judged(steps)
    assert {verdict.outcome for verdict in verdicts[::2]} == {Outcome.NOT_APPLICABLE}
    assert not violations(verdicts)


@pytest.mark.parametrize("read", ["weights", "gradients", "losses"])
def test_says_what_is_missing(read: str) -> None:
    step = Step(0, Mode.TRAIN, 0, 0.0, {**save(0, 5.0).tensors, read: ()})
    state, verdict = LearningRateTooLarge().evaluate({}, step)
    assert (state, verdict.outcome, verdict.reason) == (
        {},
        Outcome.NOT_APPLICABLE,
        Reason.NO_TENSOR,
    )
    assert read in verdict.detail


def test_says_what_was_compared() -> None:
    verdict = judged([save(10 * at, 5.0) for at in range(5)])[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.CHANGED_TOO_MUCH,
        "w",
        "worker_0",
    )
    assert verdict.detail == (
        "a step moved the weights by 0.16 of their size, such as w, and the loss went from 2 to 2"
    )
    assert dict(verdict.evidence) == {"relative_update": 0.15811, "loss": 2.0, "first_loss": 2.0}


def test_parameters_as_on_the_wire() -> None:
    given = {"threshold": "0.1", "overshoot": "1", "fallen_percent": "5"}
    expected = LearningRateTooLarge(0.1, 1.0, 5.0)
    assert build("LearningRateTooLarge", given) == (expected, {"for_steps": 10})
    assert build("LearningRateTooLarge", given, "sagemaker") == (expected, {})
    assert "LearningRateTooLarge" in rule_names(RECOMMENDED)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": "0"}, "threshold is 0.0, but must be a number above 0"),
        ({"overshoot": "inf"}, "overshoot is inf, but must be a number above 0"),
        ({"fallen_percent": "101"}, "fallen_percent is 101.0, but must be above 0, at most 100"),
    ],
)
def test_refused_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRule, match=message):
        build("LearningRateTooLarge", parameters)
