"""A run of TensorBoard: the event files in a folder, and in folders below it that belong to it.

Folders of phases (``train``, ``validation``, CatBoost's ``learn``) and those that
``add_scalars`` makes for each of its values belong to the run above them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tocsin.histories.names import is_phase
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
_MOST_FILES = 2000
_LOOKED_AT = 200  # scalars of a file, for the names that it has
_NO_NAME = re.compile(r"[^-A-Za-z0-9_.]")  # characters that a folder of add_scalars has not


def tensorboard_runs(folder: Path) -> list[Path]:
    """``folder`` if it is a run, else the runs below it, but not within a run of Tocsin.

    A folder whose event files have no scalar is no run.
    """
    found: dict[Path, None] = {}
    for path, folders, files in os.walk(folder):
        folders.sort()
        if _OUR_RUN & {*folders}:
            folders.clear()
        elif any(_MARK in file for file in files) and _tags(place := Path(path)):
            found[_owner(place, folder)] = None
    return [folder] if folder in found else sorted(found)


def _owner(place: Path, top: Path) -> Path:
    """The folder of the run that a folder of event files belongs to."""
    owner = place
    while owner != top:
        if made := _of_add_scalars(owner):
            owner = made[0]
        elif is_phase(owner.name):
            owner = owner.parent
        else:
            break
    return owner if owner.is_relative_to(top) else top


def _of_add_scalars(place: Path) -> tuple[Path, str] | None:
    """The folder in which ``add_scalars`` made this one, and the name of its value.

    The folder is ``TAG_VALUE`` in PyTorch, and ``TAG/VALUE`` in tensorboardX.
    """
    tags = _tags(place)
    if len(tags) != 1:
        return None
    before = f"{_NO_NAME.sub('_', tags[0])}_"
    if place.name.startswith(before):
        return place.parent, place.name.removeprefix(before)
    parts = tuple(tags[0].split("/"))
    if place.parent.parts[-len(parts) :] == parts:
        return place.parents[len(parts)], place.name
    return None


def _tags(place: Path) -> list[str]:
    """The names of the first scalars in a folder's own event files."""
    tags: dict[str, None] = {}
    for file in sorted(place.glob(f"*{_MARK}*"))[:_MOST_FILES]:
        if file.is_file():
            try:
                with file.open("rb") as opened:
                    tags |= dict.fromkeys(s.name for s in islice(event_scalars(opened), _LOOKED_AT))
            except (BrokenOff, Unreadable, OSError):
                tags.setdefault("")  # the reader says what is wrong
    return [*tags]


class TensorBoardRun:
    """The event files of a run, or one file.

    A file in a folder below has its folder in front of the names: ``validation/epoch_loss``, or
    behind, if ``add_scalars`` made it: ``Loss/train``. A damaged file is read up to the damage.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[Path, int] = {}  # bytes of a file
        self._sizes: dict[Path, int] = {}  # when it was read last
        self._damaged: set[Path] = set()
        self._names: dict[Path, tuple[str, str]] = {}  # of a folder: before and after those in it
        self._others: list[Path] = []

    def read(self, note: Note, *, growing: bool = False) -> Iterator[Scalar]:
        found = self._scalars(note, growing)
        if growing:
            yield from (scalar for _, scalar in found)
        else:  # files of one run overlap: they are merged by their times, each in its own order
            yield from (scalar for _, scalar in sorted(found, key=lambda each: each[0]))

    def describe(self) -> tuple[str, str, list[str]]:
        others = [f"the run {path.relative_to(self.path)}" for path in self._others[:3]]
        if len(self._others) > 3:
            others.append(f"{len(self._others) - 3} more runs below")
        return "TensorBoard", "step", others

    def _scalars(self, note: Note, growing: bool) -> Iterator[tuple[float, Scalar]]:
        """The scalars of all files, each with the latest time that its file had up to there."""
        path = self.path
        files = [path] if path.is_file() else self._files()
        if len(files) > _MOST_FILES:
            raise BadHistory(f"{path} has {len(files):,} event files, more than {_MOST_FILES:,}")
        for file in files:
            check_size(file)
            size = file.stat().st_size
            if file in self._damaged or size == self._sizes.get(file):
                continue
            self._sizes[file] = size
            before, after = self._names.get(file.parent, ("", ""))
            latest = 0.0
            try:
                for found in self._new_in(file):
                    name = f"{before}{found.name}{after}"
                    latest = max(latest, found.wall_time)
                    yield latest, Scalar(name, found.step, found.value, found.wall_time)
            except BrokenOff as error:
                if not growing:
                    note(f"{file}: {error}; everything before it is read")
            except Unreadable as error:
                self._damaged.add(file)
                note(f"{file}: {error}; everything before it is read")

    def _files(self) -> list[Path]:
        """The event files of the run; the folder's own come first."""
        files = [file for file in sorted(self.path.glob(f"*{_MARK}*")) if file.is_file()]
        self._others = []
        for path, folders, names in os.walk(self.path):
            folders.sort()
            place = Path(path)
            if place == self.path or not any(_MARK in name for name in names):
                continue
            if place not in self._names and _owner(place, self.path) != self.path:
                if _tags(place):
                    self._others.append(place)
                continue
            self._names[place] = self._names.get(place) or _around(place, self.path)
            files += sorted(place.glob(f"*{_MARK}*"))
        return files

    def _new_in(self, file: Path) -> Iterator[EventScalar]:
        with file.open("rb") as opened:
            opened.seek(self._read.get(file, 0))
            try:
                yield from event_scalars(opened)
            finally:
                self._read[file] = opened.tell()


def _around(place: Path, top: Path) -> tuple[str, str]:
    """Return what stands before and after the names in a folder below a run."""
    before = after = ""
    while place != top:
        if made := _of_add_scalars(place):
            place, value = made
            after = f"/{value}{after}"
            continue
        before = f"{place.name}/{before}"
        place = place.parent
    return before, after
