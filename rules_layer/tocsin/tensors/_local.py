"""A run in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tocsin.tensors._storage import (
    TEMPORARY,
    NotFound,
    Object,
    Parts,
    TooLarge,
    Truncated,
    coalesce,
    scatter,
)


class LocalStorage:
    """The files below one folder; links that lead out of it are refused."""

    def __init__(self, path: Path | str) -> None:
        self._root = Path(path).expanduser().resolve()

    @property
    def url(self) -> str:
        return str(self._root)

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        folder, slash, _ = prefix.rpartition("/")
        return self._walk(folder + slash, prefix, after)

    def head(self, key: str) -> Object:
        try:
            found = self._path(key).stat()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(self.url, key) from None
        return Object(key, found.st_size, found.st_mtime)

    def read(self, key: str, limit: int | None = None) -> bytes:
        with self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            if limit is not None and size > limit:
                raise TooLarge(self.url, key, size, limit)
            return file.read(size)

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        spans = coalesce(ranges)
        data = []
        with self._open(key) as file:
            size = os.fstat(file.fileno()).st_size
            for span in spans:
                if span.start + span.length > size:
                    raise Truncated(self.url, key, span.start + span.length)
                file.seek(span.start)
                data.append(file.read(span.length))
        return scatter(ranges, spans, data)

    def write(self, key: str, data: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + TEMPORARY)
        temporary.write_bytes(data)  # from empty: what a crash left there is not appended to
        temporary.replace(path)

    def _path(self, key: str) -> Path:
        path = (self._root / key).resolve()
        if not path.is_relative_to(self._root) or path == self._root:
            raise ValueError(f"key {key!r} leads out of the run {self.url}")
        return path

    def _open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(self.url, key) from None

    def _walk(self, folder: str, prefix: str, after: str) -> Iterator[Object]:
        try:
            with os.scandir(self._root / folder) as found:
                entries = {e.name + "/" * e.is_dir(follow_symlinks=False): e for e in found}
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in sorted(entries):  # a folder sorts with its slash, as its keys do
            key = folder + name
            if not key.startswith(prefix):
                continue
            if name.endswith("/"):
                if key > after or after.startswith(key):
                    yield from self._walk(key, prefix, after)
            elif key > after and not name.endswith(TEMPORARY):
                try:
                    status = entries[name].stat()
                except FileNotFoundError:
                    continue  # renamed or removed while we were listing
                yield Object(key, status.st_size, status.st_mtime)
