"""Tensors that several processes hold together: FSDP2's, and other distributed tensors."""

from __future__ import annotations

from typing import Any

from tocsin.model import Shard


def shard_of(tensor: Any) -> Shard | None:
    """Return which part of a distributed tensor lies here; None for a whole tensor.

    Raises TypeError for a part of a sum, whose numbers mean nothing alone.
    """
    placements = getattr(tensor, "placements", None)
    if placements is None or not hasattr(tensor, "to_local"):
        return None
    if any(each.is_partial() for each in placements):
        raise TypeError("it is a partial sum that was not reduced")
    mesh = tensor.device_mesh
    number, is_part = 0, False
    for place, at, size in zip(placements, mesh.get_coordinate() or (), mesh.shape, strict=False):
        if not place.is_replicate():
            number, is_part = number * size + at, True
    return Shard(tuple(tensor.shape), number) if is_part else None
