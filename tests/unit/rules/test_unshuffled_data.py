from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import ACTING, COMPETING, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.unshuffled_data import UnshuffledData, correlation

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, judged, outcomes

BATCH = 32
RNG = np.random.default_rng(0)
DRAWN = RNG.integers(0, 5, (40, BATCH))
BY_CLASS = np.sort(DRAWN.reshape(-1)).reshape(DRAWN.shape)
PAIRS_OF_A_CLASS = np.repeat(RNG.integers(0, 5, (40, BATCH // 8)), 8, axis=1)  # eight of each
RARE = np.where(RNG.random((40, BATCH)) < 0.98, 0, 1)


def labels(value: Any, name: str = "CrossEntropyLoss_input_1") -> Tensor:
    array = np.asarray(value)
    return Tensor(name, "worker_0", TensorSummary(), array.shape, str(array.dtype), value=array)


def steps(batches: Any, mode: Mode = Mode.TRAIN, kind: str | None = None) -> Iterator[Step]:
    loss = Tensor("loss", "worker_0", TensorSummary(mean=1.0), role=Role.LOSS, kind=kind)
    for at, batch in enumerate(batches):
        found = {"labels": (labels(batch),), "losses": (loss,)}
        yield Step(10 * at, mode, 10 * at, float(at), found)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (steps(BY_CLASS), VIOLATION),
        (steps(BY_CLASS[:, :4]), VIOLATION),
        (steps(np.concatenate([BY_CLASS] * 20)), VIOLATION),  # many epochs
        (steps((BY_CLASS > 2).astype(bool)[np.r_[:40, :40]]), VIOLATION),  # two classes
        (steps(np.eye(5, dtype=int)[BY_CLASS]), VIOLATION),
        (steps(BY_CLASS[:, :, None]), VIOLATION),  # (N, 1)
        (steps(DRAWN), HEALTHY),
        (steps(DRAWN[:, :4]), HEALTHY),
        (steps(PAIRS_OF_A_CLASS), HEALTHY),  # a sampler for metric learning
        (steps(RARE), HEALTHY),  # rare, not sorted
        (steps(np.tile(BY_CLASS[::4] > 2, (4, 1)).astype(float)), VIOLATION),  # four epochs
        (steps((DRAWN > 2).astype(float)), HEALTHY),
        (steps(BY_CLASS > 2), HEALTHY),  # one class, then another: it changed once
        (steps(BY_CLASS[:10]), UNDECIDED),
        (steps(np.zeros((40, 8), int)), UNDECIDED),  # one class
        (steps(np.arange(400).reshape(40, 10)), UNDECIDED),  # tokens, numbers
        (steps(BY_CLASS[:, :1]), NOT_APPLICABLE),  # no pairs
        (steps(BY_CLASS.astype(float)), NOT_APPLICABLE),  # a number, not a class
        (steps(BY_CLASS.reshape(40, 8, 4)), NOT_APPLICABLE),  # tokens
        (steps(np.full((40, 8), -100)), NOT_APPLICABLE),  # all ignored
        (steps(np.zeros((40, 0), int)), NOT_APPLICABLE),
        (steps(np.zeros(40, int)), NOT_APPLICABLE),  # 0-d
        (steps(BY_CLASS, Mode.EVAL), NOT_APPLICABLE),
        (steps(BY_CLASS, kind=ACTING), NOT_APPLICABLE),
        (steps(BY_CLASS, kind=COMPETING), NOT_APPLICABLE),
    ],
)
def test_labels_of_batches(run: Iterator[Step], expected: Any) -> None:
    assert outcomes(UnshuffledData(), run)[-1] is expected


def test_says_what_it_saw() -> None:
    verdict = list(judged(UnshuffledData(), steps(BY_CLASS)))[-1]
    assert verdict.detail.endswith(
        "though there are 5 classes: batches follow the order of classes"
    )
    assert verdict.evidence["correlation"] > 0.9


@given(st.lists(st.lists(st.integers(-1, 6), min_size=4, max_size=9), max_size=20))
def test_the_correlation_is_that_of_all_pairs(batches: list[list[int]]) -> None:
    state: Any = {}
    for step in steps([np.array(batch) for batch in batches]):
        state, _ = UnshuffledData().evaluate(state, step)
    kept = [[label for label in batch if label >= 0] for batch in batches]
    kept = [batch for batch in kept if len(batch) >= 4]
    pairs: dict[bool, list[bool]] = {True: [], False: []}
    flat = [(at, label) for at, batch in enumerate(kept) for label in batch]
    for i, (a, one) in enumerate(flat):
        for b, other in flat[:i]:
            pairs[a == b].append(one == other)
    if len({label for _, label in flat}) < 2 or not pairs[False] or all(pairs[False]):
        assert not state or correlation(state["CrossEntropyLoss_input_1"]) is None
        return
    q, p = (float(np.mean(pairs[same])) for same in (True, False))
    found = correlation(state["CrossEntropyLoss_input_1"])
    assert found == pytest.approx((q - p) / (1 - p))
