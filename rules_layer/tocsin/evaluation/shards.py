"""Load: tensors that are sharded over workers, as the one tensor that they are."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.rules import Tensor
from tocsin.tensors import joined_summary


def joined(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the same tensors, with one in place of the parts of each that is sharded.

    A part that several workers hold counts once. A part that is missing is left out.
    """
    parts: dict[str, dict[int, Tensor]] = {}
    for tensor in tensors:
        if tensor.shard is not None:
            parts.setdefault(tensor.name, {}).setdefault(tensor.shard.number, tensor)
    whole = {name: _whole([*found.values()]) for name, found in parts.items()}
    found = (each if each.shard is None else whole.pop(each.name, None) for each in tensors)
    return tuple(each for each in found if each is not None)


def _whole(parts: Sequence[Tensor]) -> Tensor:
    first = parts[0]
    return Tensor(
        first.name,
        first.worker,
        joined_summary([part.summary for part in parts]),
        shape=None if first.shard is None else first.shard.shape,
        dtype=first.dtype,
        role=first.role,
        kind=first.kind,
        previous=tuple(
            Tensor(first.name, first.worker, joined_summary([part.summary for part in earlier]))
            for earlier in zip(*(part.previous for part in parts), strict=False)
        ),
    )
