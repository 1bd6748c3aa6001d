"""The processes that hold a model together."""

from __future__ import annotations

from typing import Any

import torch


def is_distributed() -> bool:
    """Return whether several processes train together."""
    found = torch.distributed
    return bool(found.is_available() and found.is_initialized() and found.get_world_size() > 1)


def groups_of(root: Any) -> list[Any]:
    """Return the groups of ranks over which the parameters of a model are sharded: of each
    dimension of the mesh of a DTensor, and of FullyShardedDataParallel."""
    if not is_distributed():
        return []
    found: list[Any] = []
    for module in root.modules():
        own = type(module).__name__ == "FullyShardedDataParallel"
        found += [group for group in (getattr(module, "process_group", None),) if own and group]
    for parameter in root.parameters():
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None:
            found += [mesh.get_group(dimension) for dimension in range(mesh.ndim)]
    return [*dict.fromkeys(found)]
