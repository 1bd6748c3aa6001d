"""The graph that autograd has recorded."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

_RESHAPES = re.compile(
    r"(Alias|Clone|Permute|ReshapeAlias|Squeeze|T|ToCopy|Transpose|UnsafeView|Unsqueeze|View)"
    r"Backward\d"
)


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


def before_views(node: Any) -> Any:
    """The node whose numbers are only given another form by this one and those before it."""
    while node is not None and _RESHAPES.fullmatch(node.name()):
        node = node.next_functions[0][0]
    return node


def name_of(node: Any) -> str:
    """Its class, as ``ReluBackward0``; empty for none."""
    return "" if node is None else str(node.name())
