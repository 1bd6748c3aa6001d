"""Sums of the whole run in a few blocks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tocsin.rules.skill._blocks import newest, with_part


def blocks_of(numbers: list[int], most: int = 8) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number in numbers:
        found = with_part(found, [number, 1], most)
    return found


def test_sums_of_fractions_stay_short() -> None:
    found: dict[str, Any] = {}
    for at in range(1000):
        found = with_part(found, [0.1 + at / 7, 1e-9 / 3], 64)
    assert len(json.dumps(found["sums"])) < 64 * 32


@pytest.mark.parametrize("blocks", [{}, {"n": 3, "width": 1, "blocks": [[0.1, 1, 0]]}])
def test_there_may_be_none(blocks: dict[str, Any]) -> None:
    """As in what an earlier version kept."""
    assert newest(blocks, 0.5) == []
