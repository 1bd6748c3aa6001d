"""Reads of many small files at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(read: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return the result of ``read`` for each item, in their order. Raises the first one's error."""
    if len(items) < 2:
        return list(map(read, items))
    with ThreadPoolExecutor(min(_THREADS, len(items))) as pool:
        return list(pool.map(read, items))
