"""Sums of the whole run in a few blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.rules.skill._blocks import newest, with_part


def blocks_of(numbers: list[int], most: int = 8) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number in numbers:
        found = with_part(found, [number, 1], most)
    return found


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=200))
def test_nothing_is_lost_and_blocks_are_few(numbers: list[int]) -> None:
    found = blocks_of(numbers)
    assert found["parts"] == len(numbers)
    assert len(found["sums"]) <= 8
    assert [sum(column) for column in zip(*found["sums"], strict=True)] == [
        sum(numbers),
        len(numbers),
    ]


@given(st.integers(1, 200), st.floats(0.01, 1))
def test_the_newest_hold_a_share_and_no_block_too_many(count: int, share: float) -> None:
    found = blocks_of([*range(count)])
    held = [size for _, size in newest(found, share)]
    assert sum(held) >= share * count - 1e-9
    assert len(held) == 1 or sum(held[1:]) < share * count


def test_sums_of_fractions_stay_short() -> None:
    found: dict[str, Any] = {}
    for at in range(1000):
        found = with_part(found, [0.1 + at / 7, 1e-9 / 3], 64)
    assert len(json.dumps(found["sums"])) < 64 * 32


@pytest.mark.parametrize("blocks", [{}, {"n": 3, "width": 1, "blocks": [[0.1, 1, 0]]}])
def test_there_may_be_none(blocks: dict[str, Any]) -> None:
    """As in what an earlier version kept."""
    assert newest(blocks, 0.5) == []
