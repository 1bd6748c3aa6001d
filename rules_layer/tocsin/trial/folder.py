"""A trial's run in a folder."""

# There may be an event file, in a folder of its own, for every few values: pathlib would show.
# ruff: noqa: PTH114

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tocsin.tensors import (
    INDEX,
    IndexFile,
    LocalStorage,
    NotAFile,
    NotFound,
    TooLarge,
    Truncated,
    decode_index,
    open_regular,
    parse_index_key,
)
from tocsin.trial.source import NewFile, StepRange
from tocsin.trial.table import SMALL

_LIMIT = 64 * 1024 * 1024
_ALIGNED = 16  # as all memory of numpy is
_OPEN = 64  # event files that are held open
_COARSE = 2_000_000_000  # ns: how long a folder may go on changing within one time stamp
_NO_NAMES = frozenset({"", ".", ".."})
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


class _OpenFile:
    """An open file, which closes when nobody holds it any more."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.size = os.fstat(number).st_size

    def __del__(self) -> None:
        os.close(self.number)


class Folder:
    """Looks only into those folders of ``index/`` that have changed since it last did."""

    remote = False

    def __init__(self, storage: LocalStorage, steps: StepRange) -> None:
        self._storage = storage
        self._root = storage.url
        self._path = Path(storage.url)
        self._steps = steps
        self._read: dict[str, object] = {}
        self._buckets: list[str] = []
        self._unchanged: dict[str, int] = {}  # folder -> its time when it was last looked into
        self._plain: set[str] = set()  # folders that no link leads to
        self._files: dict[str, _OpenFile] = {}

    def new_files(self, *, everything: bool = False) -> Sequence[NewFile]:
        if self._changed(INDEX):
            self._buckets = [
                f"{INDEX}{entry.name}/"
                for entry in self._scan(INDEX)
                if entry.is_dir(follow_symlinks=False)
            ]
        new = []
        for bucket in self._buckets:
            if not self._changed(bucket):
                continue
            for entry in self._scan(bucket):
                key, stamp = bucket + entry.name, _stamp(entry)
                if stamp is None or self._read.get(key) == stamp:
                    continue
                place = parse_index_key(key)
                if place is not None and place[0] in self._steps:
                    new.append(NewFile(key, *place, stamp[1] / 1e9, stamp))
        return sorted(new, key=lambda found: (found.step, found.worker))

    def indexes(self, found: Sequence[NewFile]) -> Iterator[IndexFile | Exception]:
        for one in found:
            try:
                index = decode_index(self._whole(one.key), one.step, one.worker)
                self._files.pop(index.event_key or "", None)  # it may have been written again
                yield index
            except (ValueError, NotFound, OSError) as error:
                yield error
            self._read[one.key] = one.stamp

    def read(self, key: str, start: int, length: int, align: int = 0) -> bytes | memoryview:
        file = self._files.get(key) or self._open(key)
        if file is None:
            return self._storage.read_ranges(key, [(start, length)])[0]
        self._files[key] = file
        if len(self._files) > _OPEN:
            del self._files[next(iter(self._files))]
        if start + length > file.size:
            raise Truncated(self._root, key, start + length)
        if length <= SMALL and len(small := os.pread(file.number, length, start)) == length:
            return small
        shift = -align % _ALIGNED
        content = np.empty(shift + length, np.uint8).data[shift:]  # not filled with zeros first
        read = 0
        while read < length:  # once, unless there are gigabytes
            more = os.preadv(file.number, [content[read:]], start + read)
            if not more:
                raise Truncated(self._root, key, start + length)
            read += more
        return content

    def _whole(self, key: str) -> bytes:
        file = self._open(key)
        if file is None:
            return self._storage.read(key, _LIMIT)
        if file.size > _LIMIT:
            raise TooLarge(self._root, key, file.size, _LIMIT)
        return os.read(file.number, file.size)

    def _open(self, key: str) -> _OpenFile | None:
        """A file below the root; None for a link, which the storage follows if it may."""
        folder = key.rpartition("/")[0]
        if folder not in self._plain:
            path = self._root
            for part in folder.split("/"):
                path = f"{path}/{part}"
                if part in _NO_NAMES or os.path.islink(path):
                    return None
            self._plain.add(folder)
        try:
            return _OpenFile(open_regular(f"{self._root}/{key}", _NO_LINKS))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(self._root, key) from None
        except NotAFile as found:
            raise NotAFile(f"{key} of run {self._root}", found.kind) from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise

    def _changed(self, folder: str) -> bool:
        """Return whether files may have come since the last look; in doubt they may."""
        now = time.time_ns()
        try:
            modified = (self._path / folder).stat().st_mtime_ns
        except (FileNotFoundError, NotADirectoryError):
            return False
        if self._unchanged.get(folder) == modified:
            return False
        self._unchanged.pop(folder, None)
        if modified < now - _COARSE:
            self._unchanged[folder] = modified
        return True

    def _scan(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []


def _stamp(entry: os.DirEntry[str]) -> tuple[int, int, int] | None:
    """A stamp that changes when a file is written again, with its time in ns; None for no file."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
