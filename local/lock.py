"""A lock file: one process at a time holds it, until it closes the file or dies."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from local.error import LocalError


@contextmanager
def locked(path: Path, wait: float | None = None) -> Iterator[IO[str]]:
    """Hold the file and create it if needed. Raises LocalError after ``wait`` seconds."""
    with path.open("a+") as file:
        deadline = None if wait is None else time.monotonic() + wait
        while not _locks(file, blocking=deadline is None):
            if deadline is not None and time.monotonic() > deadline:
                raise LocalError(f"another process holds {path}")
            time.sleep(0.02)
        yield file


def holder(path: Path) -> str | None:
    """The content of the file if a process holds it, else None."""
    try:
        with path.open() as file:
            if not _locks(file, blocking=False):
                return file.read()
    except FileNotFoundError:
        pass
    return None


def _locks(file: IO[str], *, blocking: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
