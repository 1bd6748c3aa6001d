"""A run of TensorBoard: the event files in a folder, and in ``train``, ``val`` … below it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tocsin.histories.scalar import BadHistory, Note, Scalar, check_size
from tocsin.tensors import (
    COLLECTIONS,
    INDEX,
    BrokenOff,
    EventScalar,
    Unreadable,
    event_scalars,
)

_MARK = "tfevents"
_OUR_RUN = {INDEX.rstrip("/"), COLLECTIONS.rstrip("/")}
_PHASE = re.compile(r"train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev", re.IGNORECASE)
_MOST_FILES = 2000


def tensorboard_runs(folder: Path) -> list[Path]:
    """``folder`` if it is a run, else the runs below it, but not within a run of Tocsin."""
    found = set()
    for path, folders, files in os.walk(folder):
        if _OUR_RUN & {*folders}:
            folders.clear()
        elif any(_MARK in file for file in files):
            place = Path(path)
            found.add(place.parent if _PHASE.fullmatch(place.name) and place != folder else place)
    return [folder] if folder in found else sorted(found)


class TensorBoardRun:
    """The event files of a run, or one file.

    A file in a folder below has its folder in front of the names: ``validation/epoch_loss``.
    A damaged file is read up to the damage.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[Path, int] = {}  # bytes of a file
        self._sizes: dict[Path, int] = {}  # when it was read last
        self._damaged: set[Path] = set()

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        path = self.path
        files = [path] if path.is_file() else sorted(path.glob(f"*{_MARK}*")) + _of_phases(path)
        if len(files) > _MOST_FILES:
            raise BadHistory(f"{path} has {len(files):,} event files, more than {_MOST_FILES:,}")
        for file in files:
            check_size(file)
            size = file.stat().st_size
            if file in self._damaged or size == self._sizes.get(file):
                continue
            self._sizes[file] = size
            phase = "" if file == path or file.parent == path else f"{file.parent.name}/"
            try:
                for found in self._new_in(file):
                    yield Scalar(f"{phase}{found.name}", found.step, found.value, found.wall_time)
            except BrokenOff as error:
                if not growing:
                    note(f"{file}: {error}; what comes before is read")
            except Unreadable as error:
                self._damaged.add(file)
                note(f"{file}: {error}; what comes before is read")

    def _new_in(self, file: Path) -> Iterator[EventScalar]:
        with file.open("rb") as opened:
            opened.seek(self._read.get(file, 0))
            try:
                yield from event_scalars(opened)
            finally:
                self._read[file] = opened.tell()


def _of_phases(run: Path) -> list[Path]:
    folders = (path for path in run.iterdir() if path.is_dir() and _PHASE.fullmatch(path.name))
    return sorted(file for folder in folders for file in folder.glob(f"*{_MARK}*"))
