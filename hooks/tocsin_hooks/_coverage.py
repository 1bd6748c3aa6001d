"""What is captured, and which rules find nothing to look at among it."""

from __future__ import annotations

from collections.abc import Collection

from tocsin.watch import Watch, resolve

from tocsin_hooks._plan import Saved
from tocsin_hooks._wishes import wanting


def unmatched(watch: Watch | None, tensors: Collection[Saved]) -> list[str]:
    """Rules that the watch file names and that read none of ``tensors``, with what they want.

    Rules that are watched without being named are left out: nobody asked for each of them.
    """
    if watch is None or watch.rules is None:
        return []
    return [
        f"{rule.name}: it looks for {', '.join(read.describe() for read in reads)}"
        for rule in resolve(watch)[0]
        if (reads := rule.reads.tensors.values())
        and not any(wanting([rule], tensor) for tensor in tensors)
    ]


def described(tensors: Collection[Saved]) -> str:
    """How many tensors of each collection there are: ``4 losses, 62 weights``."""
    members: dict[str, int] = {}
    for tensor in tensors:
        members[tensor.collections[0]] = members.get(tensor.collections[0], 0) + 1
    return ", ".join(f"{count} in {name}" for name, count in sorted(members.items())) or "nothing"
