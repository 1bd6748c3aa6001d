"""The folder in which a training saves its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tocsin.model import Mode

MOST_PATH = 1024
_SAGEMAKER = Path("/opt/ml/checkpoints")
_MOST_ENTRIES = 10_000

_Seen = tuple[float, int, str]
"""The time of a file or folder, its size and its path."""


def checkpoints_in(given: str | Path | None) -> Path | None:
    """Return the folder to look at: the given one, else SageMaker's where that is there."""
    if given is not None:
        return Path(given)
    return _SAGEMAKER if _SAGEMAKER.is_dir() else None


class CheckpointFolder:
    """Records the newest file or folder there, once it is unchanged at two consecutive checks.

    run: what the hook writes, which may lie there as well, and is no checkpoint.
    started: only what is newer counts, in seconds since the epoch.
    counters: of the steps begun so far.
    note: gets the last step that is in a checkpoint, as far as can be seen, and its path.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        started: float,
        counters: Mapping[Mode, int],
        note: Callable[[int, str], None],
    ) -> None:
        self._folder = folder
        self._run = run
        self._counters = counters
        self._note = note
        self._noted: _Seen = (started, 0, "")
        self._candidate: tuple[_Seen, int] | None = None

    def look(self) -> None:
        """Raises OSError for a folder that cannot be read."""
        newest = None if self._run == str(self._folder) else self._newest()
        if newest is None or newest <= self._noted:
            return
        before = self._candidate
        if before is not None and before[0] == newest:
            self._noted, self._candidate = newest, None
            self._note(before[1], newest[2])
        else:
            step = max(0, self._counters[Mode.GLOBAL] - 2)  # one may be open, one was begun since
            self._candidate = newest, step

    def _newest(self) -> _Seen | None:
        newest: _Seen | None = None
        try:
            with os.scandir(self._folder) as entries:
                for number, entry in enumerate(entries):
                    if number == _MOST_ENTRIES:
                        break
                    if f"{self._run}/".startswith(f"{entry.path}/"):
                        continue
                    found = entry.stat()
                    seen = found.st_mtime, found.st_size, entry.path
                    newest = seen if newest is None else max(newest, seen)
        except FileNotFoundError:  # it is made with the first checkpoint
            return None
        return newest
