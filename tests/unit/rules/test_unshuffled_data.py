from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import ACTING, COMPETING, Mode, Role, TensorSummary
from tocsin.rules import Step, Tensor
from tocsin.rules.data.unshuffled_data import UnshuffledData, correlation, share_between

from tests.unit.rules.judging import HEALTHY, NOT_APPLICABLE, UNDECIDED, VIOLATION, judged, outcomes

BATCH = 32
RNG = np.random.default_rng(0)
DRAWN = RNG.integers(0, 5, (40, BATCH))
BY_CLASS = np.sort(DRAWN.reshape(-1)).reshape(DRAWN.shape)
BY_SIZE = np.sort(RNG.standard_normal(40 * BATCH)).reshape(40, BATCH)
PAIRS_OF_A_CLASS = np.repeat(RNG.integers(0, 5, (40, BATCH // 8)), 8, axis=1)  # eight of each
RARE = np.where(RNG.random((40, BATCH)) < 0.98, 0, 1)


def labels(value: Any, name: str = "CrossEntropyLoss_input_1") -> Tensor:
    array = np.asarray(value)
    return Tensor(name, "worker_0", TensorSummary(), array.shape, str(array.dtype), value=array)


def steps(batches: Any, mode: Mode = Mode.TRAIN, kind: str | None = None) -> Iterator[Step]:
    loss = Tensor("loss", "worker_0", TensorSummary(mean=1.0), role=Role.LOSS, kind=kind)
    for at, batch in enumerate(batches):
        given = replace(labels(batch, "Net_input_0"), value=None)
        found = {"labels": (labels(batch),), "inputs": (given,), "losses": (loss,)}
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
        (steps(np.tile(BY_SIZE[::4], (4, 1))), VIOLATION),  # numbers, four epochs
        (steps(-1e6 * np.tile(BY_SIZE[::4], (4, 1))[:, :, None]), VIOLATION),  # (N, 1)
        (steps(BY_SIZE), HEALTHY),  # grow once, as targets may that a model makes
        (steps(RNG.standard_normal((40, BATCH))), HEALTHY),
        (steps(np.full((40, BATCH), 0.5)), UNDECIDED),  # all the same
        (steps([BY_SIZE[0] > 9, *BY_SIZE[1:]]), HEALTHY),  # 0 by chance
        (steps(BY_SIZE[:, :7]), NOT_APPLICABLE),  # too few numbers
        (steps(np.full((40, BATCH), np.nan)), NOT_APPLICABLE),
        (steps(np.full((40, BATCH), 1e200)), NOT_APPLICABLE),
        (steps(BY_CLASS.reshape(40, 8, 4)), NOT_APPLICABLE),  # tokens
        (steps(np.full((40, 8), -100)), NOT_APPLICABLE),  # all ignored
        (steps(np.zeros((40, 0), int)), NOT_APPLICABLE),
        (steps(np.zeros(40, int)), NOT_APPLICABLE),  # 0-d
        (steps(np.full(40, 0.5)), NOT_APPLICABLE),
        (steps(BY_CLASS, Mode.EVAL), NOT_APPLICABLE),
        (steps(BY_CLASS, kind=ACTING), NOT_APPLICABLE),
        (steps(BY_CLASS, kind=COMPETING), NOT_APPLICABLE),
    ],
)
def test_labels_of_batches(run: Iterator[Step], expected: Any) -> None:
    assert outcomes(UnshuffledData(), run)[-1] is expected


def test_numbers_are_samples_only_where_inputs_have_as_many() -> None:
    """A batch may be a series, a graph or a function: its labels are alike by nature."""
    ordered = steps(np.tile(BY_SIZE[::4], (4, 1)))
    alone = [replace(each, tensors={**each.tensors, "inputs": ()}) for each in ordered]
    assert set(outcomes(UnshuffledData(), alone)) == {NOT_APPLICABLE}


def test_says_what_it_saw() -> None:
    verdict = list(judged(UnshuffledData(), steps(BY_CLASS)))[-1]
    assert verdict.detail.endswith("although there are 5 classes: the data is sorted by class")
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


numbers = st.floats(-100, 100).map(lambda number: round(number, 3) + 0.5e-3)


@given(st.lists(st.lists(numbers, min_size=8, max_size=12), min_size=2, max_size=12))
def test_the_share_is_that_of_an_analysis_of_variance(batches: list[list[float]]) -> None:
    state: Any = {}
    for step in steps([np.array(batch) for batch in batches]):
        state, _ = UnshuffledData().evaluate(state, step)
    sizes = np.array([len(batch) for batch in batches])
    every = np.concatenate(batches)
    means = np.array([np.mean(batch) for batch in batches])
    between = float((sizes * (means - every.mean()) ** 2).sum()) / (len(batches) - 1)
    squares = sum(float(((np.array(batch) - np.mean(batch)) ** 2).sum()) for batch in batches)
    within = squares / (len(every) - len(batches))
    size = (len(every) - (sizes**2).sum() / len(every)) / (len(batches) - 1)
    total = between + (size - 1) * within
    found = share_between(state["CrossEntropyLoss_input_1"])
    if total < 1e-9:
        return
    assert found == pytest.approx((between - within) / total, abs=1e-6)
