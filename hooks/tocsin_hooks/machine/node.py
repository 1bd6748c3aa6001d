"""The machine that a process runs on, among those of its job, and who samples it."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

_HOSTS = msgspec.json.Decoder(list[str])
_LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


@dataclass(frozen=True)
class Node:
    """A machine of a job.

    name: its worker's name in the machine run.
    count: the number of machines.
    first: whether it is the one that writes the end marker.
    """

    name: str
    count: int = 1
    first: bool = True


def this_node(environ: Mapping[str, str]) -> Node:
    """Return the node as SageMaker, torchrun, Slurm or Open MPI name it; else by the host's
    name."""
    hosts = _hosts(environ)
    host = environ.get("SM_CURRENT_HOST", "")
    if host in hosts:
        return Node(host, len(hosts), host == hosts[0])
    number, count = _numbered(environ)
    if number is not None:
        return Node(f"node_{number}", count, number == 0)
    name = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:64].lstrip("_-.") or "node_0"
    return Node(name, 1, True)


def local_rank(environ: Mapping[str, str]) -> int | None:
    """Return the local rank of the process; None if it is not known."""
    for name in _LOCAL_RANK:
        with suppress(KeyError, ValueError):
            return int(environ[name])
    return None


class Claim:
    """The right to sample a node for a run: of several processes one has it, until it ends."""

    def __init__(self, run: str, environ: Mapping[str, str] = os.environ) -> None:
        self._file: IO[str] | None = None
        rank = local_rank(environ)
        self.granted = rank in (None, 0) and self._locked(run)

    def release(self) -> None:
        if self._file is not None:
            with suppress(ImportError, OSError):
                import fcntl

                fcntl.flock(self._file, fcntl.LOCK_UN)  # forked children have the file open, too
            self._file.close()
            self._file = None

    def _locked(self, run: str) -> bool:
        try:
            import fcntl
        except ImportError:  # Windows has no such lock
            return True
        digest = hashlib.sha256(run.encode()).hexdigest()[:16]
        owner = os.getuid()
        try:
            self._file = (Path(tempfile.gettempdir()) / f"tocsin-{owner}-{digest}.lock").open("w")
        except OSError:  # no folder for temporary files: rather two samplers than none
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            return False
        return True


def _hosts(environ: Mapping[str, str]) -> list[str]:
    try:
        return _HOSTS.decode(environ.get("SM_HOSTS", "[]"))
    except msgspec.MsgspecError:
        return []


def _numbered(environ: Mapping[str, str]) -> tuple[int | None, int]:
    def number(name: str) -> int | None:
        with suppress(KeyError, ValueError):
            return int(environ[name])
        return None

    world, local = number("WORLD_SIZE"), number("LOCAL_WORLD_SIZE")
    if (group := number("GROUP_RANK")) is not None:
        return group, max(1, (world or 1) // (local or 1))
    if (slurm := number("SLURM_NODEID")) is not None:
        return slurm, max(1, number("SLURM_NNODES") or 1)
    rank, size = number("OMPI_COMM_WORLD_RANK"), number("OMPI_COMM_WORLD_SIZE")
    there = number("OMPI_COMM_WORLD_LOCAL_SIZE")
    if rank is not None and there:
        return rank // there, max(1, (size or 1) // there)
    return None, 1
