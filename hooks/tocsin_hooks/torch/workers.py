"""The rank of this process, and the number of processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import distributed


def worker_options(environment: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of ``Hook`` for this process: ``worker``, ``num_workers``, and ``run_id`` where
    the launcher has one for all processes of a start.

    From ``torch.distributed`` if it is initialised, else from what torchrun and others put into
    the environment.
    """
    if distributed.is_available() and distributed.is_initialized():
        rank, size = distributed.get_rank(), distributed.get_world_size()
    else:
        rank, size = _number(environment, "RANK", 0), _number(environment, "WORLD_SIZE", 1)
    if not 0 <= rank < size:
        rank, size = 0, 1
    options: dict[str, Any] = {"worker": f"worker_{rank}", "num_workers": size}
    start = _start(environment)
    return options | ({"run_id": start} if start and size > 1 else {})


def _start(environment: Mapping[str, str]) -> str | None:
    """An identity that the processes of one start share, and no other start has."""
    torchrun = environment.get("TORCHELASTIC_RUN_ID")
    if torchrun and torchrun != "none":  # its default, the same for every job
        # A job that is started again may have the same; its port is then most likely another.
        parts = (
            environment.get(name, "0") for name in ("MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
        )
        return "-".join((torchrun, *parts))
    slurm = [environment.get(f"SLURM_{part}") for part in ("JOB_ID", "STEP_ID")]
    if all(slurm):
        return "-".join(map(str, ("slurm", *slurm, environment.get("SLURM_RESTART_COUNT", "0"))))
    return None


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(environment[name])
    except (KeyError, ValueError):
        return default
