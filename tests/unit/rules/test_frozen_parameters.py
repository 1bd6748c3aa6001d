from __future__ import annotations

from collections.abc import Mapping

import pytest
from tocsin.model import Mode, Reason, Role, TensorSummary
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import first, judging

MATRIX = (4, 3)
judged = judging("FrozenParameters")


def save(
    at: int,
    changed: Mapping[str, bool | None],
    gradients: Mapping[str, float | None] | None = None,
    *,
    shape: tuple[int, ...] | None = MATRIX,
    role: Role = Role.WEIGHT,
    mode: Mode = Mode.TRAIN,
    prefix: str = "gradient/",
    suffix: str = "",
    worker: str = "worker_0",
    rate: float = 0.1,
    losses: tuple[float, float] | None = None,
) -> Step:
    """A step whose weights have changed or not (None: not known); by default all have gradients."""
    if gradients is None:
        gradients = dict.fromkeys(changed, 1.0)
    weights = []
    for name, is_other in changed.items():
        now, before = TensorSummary(fingerprint="now"), TensorSummary(fingerprint="before")
        past = {None: (), True: (before,), False: (now,)}[is_other]
        previous = tuple(Tensor(name, worker, summary) for summary in past)
        weights.append(Tensor(name, worker, now, shape, "float32", role, previous=previous))
    of = tuple(
        Tensor(f"{prefix}{name}{suffix}", worker, TensorSummary(l2=norm), role=Role.GRADIENT)
        for name, norm in gradients.items()
    )
    rates = (Tensor("learning_rate", worker, TensorSummary(mean=rate), role=Role.LEARNING_RATE),)
    intervals = () if losses is None else (_interval(worker, *losses),)
    found = {"weights": tuple(weights), "gradients": of, "rates": rates, "intervals": intervals}
    return Step(at, mode, at, 1000.0 + at, found)


def _interval(worker: str, low: float, high: float) -> Tensor:
    summary = TensorSummary(min=low, max=high)
    return Tensor("interval/loss", worker, summary, role=Role.INTERVAL)


STUCK = {"a": True, "b": False}
NONE = {"a": False, "b": False}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([save(at, STUCK) for at in range(12)], 9, id="one of two"),
        pytest.param([save(100 * at, STUCK) for at in range(12)], 9, id="every hundred steps"),
        pytest.param([save(at, {"a": True, "b": True}) for at in range(50)], None, id="healthy"),
        pytest.param([save(at, STUCK, {"a": 1.0}) for at in range(50)], None, id="on purpose"),
        pytest.param([save(at, STUCK, rate=0.0) for at in range(50)], None, id="begins later"),
        pytest.param(
            [save(at, STUCK, {"a": 1.0, "b": 0.0}) for at in range(50)], None, id="not used"
        ),
        pytest.param(
            [save(at, STUCK, {"a": 1.0, "b": 9e-4}) for at in range(50)], None, id="next to nothing"
        ),
        pytest.param([save(at, STUCK, {"a": 1.0, "b": None}) for at in range(50)], None, id="NaN"),
        pytest.param(
            [save(0, {"a": True, "b": True}), *(save(at, STUCK) for at in range(1, 50))],
            None,
            id="frozen later",
        ),
        pytest.param(
            [save(at, {"a": True, "b": at == 9}) for at in range(50)], None, id="in the last moment"
        ),
        pytest.param(
            [save(at, {"a": at % 2 == 0, "b": at % 2 == 1}) for at in range(50)],
            None,
            id="take turns",
        ),
        pytest.param([save(at, STUCK, shape=(4,)) for at in range(50)], None, id="scales"),
        pytest.param([save(at, STUCK, shape=()) for at in range(50)], None, id="0-d"),
        pytest.param([save(at, STUCK, shape=None) for at in range(50)], 9, id="shape not known"),
        pytest.param([save(at, STUCK, role=Role.BIAS) for at in range(50)], None, id="biases"),
        pytest.param([save(at, NONE) for at in range(90)], 64, id="no step"),
        pytest.param([save(10 * at, NONE) for at in range(50)], 9, id="no step, every ten"),
        pytest.param(
            [save(10 * at, dict.fromkeys("ab", at < 20)) for at in range(50)],
            29,
            id="no step later",
        ),
        pytest.param(
            [save(10 * at, dict.fromkeys("ab", at < 20), losses=(1.0, 2.0)) for at in range(50)],
            None,
            id="swings between two values",
        ),
        pytest.param(
            [save(10 * at, dict.fromkeys("ab", at < 20), losses=(1.0, 1.0)) for at in range(50)],
            29,
            id="no step later, of the whole batch",
        ),
        pytest.param(
            [save(10 * at, NONE, {"a": at + 1.0}, losses=(1.0, 2.0)) for at in range(50)],
            9,
            id="no step, with other batches",
        ),
        pytest.param(
            [save(at, dict.fromkeys("ab", at % 40 == 39)) for at in range(100)],
            None,
            id="accumulated gradients",
        ),
        pytest.param([save(at, NONE, {"a": 0.0, "b": 0.0}) for at in range(50)], None, id="dead"),
        pytest.param([save(at, {"a": None}) for at in range(50)], None, id="not known"),
        pytest.param([save(at, {"a": False}) for at in [0, 40, 3, 3, 90]], None, id="out of order"),
        pytest.param([save(0, NONE)], None, id="one step"),
        pytest.param([save(0, {})], None, id="no weight"),
    ],
)
def test_histories(steps: list[Step], expected: int | None) -> None:
    assert first(judged(steps)) == expected


@pytest.mark.parametrize(
    ("weight", "gradient"),
    [
        ("Net_fc1.weight", "gradient/Net_fc1.weight"),
        ("layer0/weight", "gradient/layer0/weight"),
        ("dense/kernel:0", "gradients/dense/kernelGrad"),
        ("weights/dense/kernel:0", "gradients/weights/dense/kernelGrad:0"),
        ("fc.weight", "fc.weight.grad"),
        ("fc.weight", "step/grads/fc.weight"),
    ],
)
def test_names_of_gradients(weight: str, gradient: str) -> None:
    steps = [save(at, {weight: False, "moves": True}, {}) for at in range(10)]
    own = Tensor(gradient, "worker_0", TensorSummary(l2=1.0))
    steps = [
        Step(at, Mode.TRAIN, at, 0.0, {**step.tensors, "gradients": (own,)})
        for at, step in enumerate(steps)
    ]
    assert first(judged(steps)) == 9


@pytest.mark.parametrize("gradient", ["gradient/aux_fc.weight", "fc.weight2", "weight", "other"])
def test_gradients_of_others(gradient: str) -> None:
    steps = [
        save(at, {"fc.weight": False, "a": True}, {gradient: 1.0, "a": 1.0}, prefix="")
        for at in range(20)
    ]
    assert first(judged(steps)) is None


def test_workers_have_gradients_of_their_own() -> None:
    """A weight that one worker holds is not driven by what another computes for its own."""
    steps = []
    for at in range(20):
        mine, other = save(at, STUCK, {"a": 1.0}), save(at, {}, {"b": 1.0}, worker="worker_1")
        found = {read: mine.tensors[read] + other.tensors[read] for read in mine.tensors}
        steps.append(Step(at, Mode.TRAIN, at, 0.0, found))
    assert first(judged(steps)) is None


def test_accumulation_may_be_short() -> None:
    steps = [save(at, NONE) for at in range(9)]
    assert first(judged(steps, patience="3", accumulation="0")) == 2


def test_says_what_stands_still() -> None:
    still = {"a": True, "b": False, "c": False}
    gradients = {"a": 1.0, "b": 0.5, "c": 0.25}
    verdict = judged(save(at, still, gradients) for at in range(10))[-1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (
        Reason.CHANGED_TOO_LITTLE,
        "b",
        "worker_0",
    )
    assert verdict.detail == (
        "b has not changed in 10 saves (1 of 2 such weights), though its gradient's norm is 0.5 "
        "and other weights change"
    )
    assert dict(verdict.evidence) == {"saves": 10, "gradient": 0.5, "weights": 2}

    verdict = judged(save(10 * at, NONE, {"a": 1.0, "b": 2.0}) for at in range(10))[-1]
    assert verdict.detail == (
        "no weight has changed in 10 saves, though the norm of the gradient of b is 2"
    )
    assert dict(verdict.evidence) == {"saves": 10, "gradient": 2.0, "weights": 2}
