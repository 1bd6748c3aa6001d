"""The graph that autograd has recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any


def nodes_of(node: Any, most: int) -> Iterator[Any]:
    """A node and those that it was computed from, the nearest first, each once, and at most so
    many."""
    waiting, seen = deque([node]), set[Any]()
    while waiting and len(seen) < most:
        found = waiting.popleft()
        if found is None or found in seen:
            continue
        seen.add(found)
        yield found
        waiting += [each for each, _ in found.next_functions]
