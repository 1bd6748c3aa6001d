"""How far tensors moved, told from samples of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin_hooks.memory import MOST_SAMPLED, Memory, sample_stride

LARGE = 3 * MOST_SAMPLED + 1


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1.0, 2.0], [1.0, 5.0], (3.0, 3.0)),
        ([], [], (0.0, 0.0)),
        ([1.0], [1.0], (0.0, 0.0)),
        ([1, 2], [3, 2], (2.0, 2.0)),
        ([1.0, 2.0], [1.0, 2.0, 3.0], (None, None)),
        ([True, False], [False, False], (1.0, 1.0)),
    ],
)
def test_a_small_tensor_is_compared_as_a_whole(before: object, after: object, expected: object):
    memory = Memory()
    assert memory.update("w", np.array(before), None) == (None, None)
    assert memory.update("w", np.array(after), None) == expected


@given(size=st.integers(1, 1 << 40))
def test_a_stride_goes_through_every_row_and_column(size: int) -> None:
    stride = sample_stride(size)
    assert math.gcd(stride, size) == 1
    assert math.ceil(size / stride) <= MOST_SAMPLED


def test_a_large_tensor_is_estimated() -> None:
    random = np.random.default_rng(0)
    weights = random.standard_normal((300, 500)).astype(np.float32)
    change = random.standard_normal((300, 500)).astype(np.float32)
    memory = Memory()
    memory.update("w", weights, "a")
    l1, l2 = memory.update("w", weights + change, "b")
    assert l1 == pytest.approx(np.abs(change).sum(), rel=0.03)
    assert l2 == pytest.approx(np.linalg.norm(change), rel=0.03)


@pytest.mark.parametrize(("fingerprint", "expected"), [("a", (0.0, 0.0)), ("b", (None, None))])
def test_a_change_beside_the_sample_is_unknown_and_not_none(fingerprint: str, expected: object):
    memory = Memory()
    memory.update("w", np.zeros(LARGE), "a")
    assert memory.update("w", np.zeros(LARGE), fingerprint) == expected


def test_what_was_given_may_change_afterwards() -> None:
    memory = Memory()
    weights = np.zeros(4)
    memory.update("w", weights, None)
    weights += 1
    assert memory.update("w", weights, None) == (4.0, 2.0)


def test_memory_is_bounded_and_gives_back_what_it_held() -> None:
    memory = Memory(most=100)
    one, large = np.zeros(10), np.zeros(20)
    assert memory.update("a", one, None) == (None, None)
    assert memory.update("b", one, None) == (None, None)  # no room
    assert memory.update("b", one, None) == (None, None)
    assert memory.update("a", one + 1, None) == (10.0, math.sqrt(10))
    assert memory.update("a", large, None) == (None, None)  # and what comes has no room either
    assert memory.update("b", one, None) == (None, None)
    assert memory.update("b", one + 1, None) == (10.0, math.sqrt(10))


def test_nothing_is_known_of_what_one_step_saves_twice() -> None:
    memory = Memory()
    memory.update("w", np.zeros(2), None)
    assert memory.update("w", np.ones(2), None, again=True) == (None, None)
    assert memory.update("w", np.ones(2), None) == (0.0, 0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_update_that_is_not_finite_is_unknown(value: float) -> None:
    memory = Memory()
    memory.update("w", np.zeros(LARGE), "a")
    l1, _ = memory.update("w", np.full(LARGE, value), "b")
    assert l1 in (None, 0.0)  # norms are over what is finite


def test_names_that_change_at_every_step_do_not_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin_hooks.memory._MOST_SAMPLES", 3)
    memory = Memory()
    for step in range(10):
        memory.update(f"w{step}", np.ones(1), None)
    assert len(memory._samples) == 3
    assert memory.update("w0", np.ones(1), None) == (0.0, 0.0)
