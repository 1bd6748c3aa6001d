"""A run in a folder."""

# Files are read and written at every step, and pathlib would take longer than the kernel.
# ruff: noqa: PTH103, PTH105, PTH114, PTH116, PTH118, PTH120

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from tocsin.tensors.regular import check_regular, open_regular
from tocsin.tensors.storage import (
    TEMPORARY,
    NotAFile,
    NotFound,
    Object,
    Outside,
    Parts,
    TooLarge,
    Truncated,
    coalesce,
    scatter,
)

_NO_NAMES = frozenset({"", ".", ".."})
_FILES = (".json", ".tfevents", ".ts")  # a folder of such a name is in the place of a file


class LocalStorage:
    """The files below one folder; links that lead out of it are refused."""

    def __init__(self, path: Path | str) -> None:
        self._root = str(Path(path).expanduser().resolve())

    @property
    def url(self) -> str:
        return self._root

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        folder, slash, _ = prefix.rpartition("/")
        return self._walk(folder + slash, prefix, after)

    def head(self, key: str) -> Object:
        try:
            found = os.stat(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(self.url, key) from None
        check_regular(self._called(key), found.st_mode)
        return Object(key, found.st_size, found.st_mtime)

    def read(self, key: str, limit: int | None = None) -> bytes:
        with self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise TooLarge(self.url, key, size, limit)
            return _read(file, size)

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        spans = coalesce(ranges)
        data = []
        with self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            for span in spans:
                if span.start + span.length > size:
                    raise Truncated(self.url, key, span.start + span.length)
                file.seek(span.start)
                data.append(_read(file, span.length))
        return scatter(ranges, spans, data)

    def write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        # By process: workers of one host write the same watch.json at the same moment.
        temporary = f"{path}.{os.getpid()}{TEMPORARY}"
        try:
            _write(temporary, data)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write(temporary, data)
        os.replace(temporary, path)

    def _path(self, key: str) -> str:
        """The path of a key. Raises Outside for one that leads out of the run."""
        path, plain = self._root, True
        for part in key.split("/"):
            path = f"{path}/{part}"
            plain = plain and part not in _NO_NAMES and not os.path.islink(path)
        if plain:
            return path
        path = os.path.realpath(os.path.join(self._root, key))
        if not path.startswith(os.path.join(self._root, "")):
            raise Outside(self.url, key)
        return path

    def _open(self, key: str) -> FileIO:
        try:
            return FileIO(open_regular(self._path(key)))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(self.url, key) from None
        except NotAFile as found:
            raise NotAFile(self._called(key), found.kind) from None

    def _called(self, key: str) -> str:
        return f"{key} of run {self.url}"

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[Object]:
        names = []
        try:
            with os.scandir(os.path.join(self._root, folder)) as found:
                for entry in found:
                    name = entry.name
                    if entry.is_dir(follow_symlinks=False) and not name.endswith(_FILES):
                        name += "/"  # a folder sorts with its slash, as its keys do
                    key = folder + name
                    if key.startswith(prefix) and (key > after or after.startswith(key)):
                        names.append(name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in sorted(names):
            key = folder + name
            if name.endswith("/"):
                yield from self._walk(key, prefix, after)
            elif key > after and not name.endswith(TEMPORARY):
                try:
                    status = os.stat(f"{self._root}/{key}")
                except FileNotFoundError:
                    continue  # renamed or removed while we were listing
                yield Object(key, status.st_size, status.st_mtime)


def _read(file: FileIO, size: int) -> bytes:
    """So many bytes, in one call unless there are gigabytes of them."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _write(path: str, data: bytes) -> None:
    """From empty: what a crash has left there is not appended to."""
    with FileIO(path, "w") as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
