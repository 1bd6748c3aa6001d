from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from tocsin.model import Mode, Outcome, Reason, TensorSummary
from tocsin.rules import Step, Tensor

from tests.unit.rules.judging import judged, made, outcomes

OK, BAD, NONE = Outcome.HEALTHY, Outcome.VIOLATION, Outcome.NOT_APPLICABLE
Values = Mapping[str, Any]
rule = partial(made, "WorkersDisagree")

MakeTensor = Callable[..., Tensor]
MakeStep = Callable[..., Step]


def random(*seed: int, size: int = 40) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(size)


@pytest.fixture
def run(make_step: MakeStep, make_tensor: MakeTensor) -> Callable[..., list[Step]]:
    """Steps from what each worker holds, with the two saves before."""

    def make(*steps: Mapping[str, Values]) -> list[Step]:
        past: dict[tuple[str, str], tuple[Tensor, ...]] = {}
        made = []
        for number, workers in enumerate(steps):
            found = []
            for worker, weights in workers.items():
                for name, content in weights.items():
                    tensor = make_tensor(name, content, worker=worker)
                    before = past.get((worker, name), ())
                    found.append(replace(tensor, previous=before))
                    past[worker, name] = (tensor, *before)[:2]
            made.append(make_step("weights", number, found))
        return made

    return make


def both(weights: Values) -> dict[str, Values]:
    return {"worker_0": weights, "worker_1": weights}


W = random(1)
OTHER = W + 0.01 * random(2)
ROUNDED = W * (1 + 1e-7 * random(3))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([both({"w": W})] * 3, [OK] * 3, id="the same"),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": OTHER}}, both({"w": W})],
            [OK, BAD, OK],
            id="differ once",
        ),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": ROUNDED}}],
            [OK, OK],
            id="rounding",
        ),
        pytest.param(
            [{"worker_0": {"w": W}, "worker_1": {"w": OTHER}}] * 3, [NONE] * 3, id="shards"
        ),
        pytest.param(
            [
                {"worker_0": {"w": W, "v": W}, "worker_1": {"w": OTHER, "v": W}},
                {"worker_0": {"w": OTHER, "v": W}, "worker_1": {"w": W, "v": W}},
            ],
            [OK, OK],
            id="experts beside a shared weight",
        ),
        pytest.param(
            [
                {"worker_0": {"w": W, "n": [1.0, 1.0]}, "worker_1": {"w": OTHER, "n": [1.0, 1.0]}},
                {"worker_0": {"w": W, "n": [1.1, 1.0]}, "worker_1": {"w": OTHER, "n": [0.9, 0.9]}},
            ],
            [NONE, NONE],
            id="shards of a norm begin as ones",
        ),
        pytest.param(
            [
                both({"b": [0.0, 0.0]}),
                both({"b": [0.1, 0.2]}),
                {"worker_0": {"b": [0.1, 0.2]}, "worker_1": {"b": [0.3, 0.2]}},
            ],
            [NONE, OK, BAD],
            id="a bias begins as zeros",
        ),
        pytest.param(
            [{"worker_0": {"w": W}, "worker_1": {"w": W[:20]}}] * 2, [NONE, NONE], id="other shapes"
        ),
        pytest.param(
            [{"worker_0": {"a": W}, "worker_1": {"b": W}}] * 2, [NONE, NONE], id="other names"
        ),
        pytest.param([{"worker_0": {"w": W}}] * 2, [NONE, NONE], id="one worker"),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": OTHER}}, both({"w": W})],
            [OK, NONE, OK],
            id="a worker is missing once",
        ),
        pytest.param([{}, both({})], [NONE, NONE], id="nothing"),
        pytest.param([both({"w": []})] * 2, [NONE, NONE], id="empty"),
        pytest.param([both({"w": 2.0})] * 2, [NONE, NONE], id="one number"),
        pytest.param([both({"w": [np.nan, np.nan]})] * 2, [NONE, NONE], id="NaN"),
        pytest.param([both({"w": TensorSummary()})] * 2, [NONE, NONE], id="unknown"),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": TensorSummary()}}],
            [OK, NONE],
            id="unknown once",
        ),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": [*W[1:], np.nan]}}],
            [OK, BAD],
            id="NaN in one",
        ),
        pytest.param(
            [both({"w": W}), {"worker_0": {"w": W[:5]}, "worker_1": {"w": OTHER[:5]}}],
            [OK, BAD],
            id="another shape in all",
        ),
        pytest.param(
            [
                both({"w": np.arange(9)}),
                {"worker_0": {"w": np.arange(9)}, "worker_1": {"w": np.arange(1, 10)}},
            ],
            [OK, BAD],
            id="integers",
        ),
    ],
)
def test_two_workers(run: Any, steps: Any, expected: list[Outcome]) -> None:
    assert outcomes(rule(), run(*steps)) == expected


def test_the_odd_one_of_many_is_named(run: Any) -> None:
    same = {f"worker_{rank}": {"v": W, "w": W} for rank in range(4)}
    odd = {**same, "worker_2": {"v": W + 0.001, "w": OTHER}}
    verdict = judged(rule(), run(same, odd))[1]
    assert (verdict.reason, verdict.tensor, verdict.worker) == (Reason.DIFFERENT, "w", "worker_2")
    assert list(verdict.evidence) == ["difference", "rtol", "other_worker"]
    assert 1e-4 < float(verdict.evidence["difference"]) < 0.1
    assert verdict.evidence["other_worker"] != "worker_2"
    assert verdict.detail.startswith("w differs by 0.00")
    assert "between worker_2 and worker_" in verdict.detail


def test_rtol(run: Any) -> None:
    steps = run(both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": 1.001 * W}})
    assert outcomes(rule(rtol="0.01"), steps) == [OK, OK]
    assert outcomes(rule(rtol="0.0005"), steps) == [OK, BAD]


def trained(start: Iterable[int], gradients: Iterable[int], decay: float = 0.0) -> list[Values]:
    """A worker's weights, step after step: from what they start and what moves them."""
    weights = {name: random(*start, at) for at, name in enumerate(("v", "w"))}
    steps = []
    for number in range(12):
        steps.append(weights)
        weights = {
            name: (1 - decay) * value - 0.01 * random(*gradients, number, at)
            for at, (name, value) in enumerate(weights.items())
        }
    return steps


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(trained([1], [5]), trained([2], [5]), True, id="own start, shared gradients"),
        pytest.param(trained([1], [5], 0.1), trained([2], [5], 0.1), True, id="and weight decay"),
        pytest.param(trained([1], [5]), trained([2], [6]), False, id="ensemble or shards"),
        pytest.param(trained([1], [5]), trained([1], [6]), True, id="own gradients"),
        pytest.param(trained([1], [5]), trained([1], [5]), False, id="data-parallel"),
        pytest.param([{"w": W}] * 12, [{"w": OTHER}] * 12, False, id="frozen"),
    ],
)
def test_workers_that_share_gradients_must_share_weights(
    run: Any, one: list[Values], other: list[Values], expected: bool
) -> None:
    steps = [{"worker_0": a, "worker_1": b, "worker_2": a} for a, b in zip(one, other, strict=True)]
    assert (BAD in outcomes(rule(), run(*steps))) is expected
    assert outcomes(rule(), run(*steps))[-1] is BAD or not expected


def test_modes_share_what_was_seen(run: Any) -> None:
    agree, differ = run(both({"w": W}), {"worker_0": {"w": W}, "worker_1": {"w": OTHER}})
    assert outcomes(rule(), [replace(agree, mode=Mode.EVAL), differ]) == [OK, BAD]


def test_the_state_is_small_and_kept_where_nothing_is_new(run: Any) -> None:
    names = [f"layer_{at}/with/a/rather/long/name" for at in range(100)]
    steps = run(
        *[both({name: random(at, step) for at, name in enumerate(names)}) for step in (1, 2)]
    )
    state, _ = rule().evaluate({}, steps[0])
    assert len(msgspec.json.encode(state)) < 20 * len(names)
    assert rule().evaluate(state, steps[1])[0] == state
