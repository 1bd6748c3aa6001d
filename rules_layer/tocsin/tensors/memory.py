"""A run in memory."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from operator import methodcaller

from tocsin.tensors.storage import NotFound, Object, Parts, TooLarge, Truncated


class MemoryStorage:
    """Files in memory, under the ``url`` of the place that they stand for.

    ``written_at`` is the time of the files that are written next, in seconds since the epoch;
    None: the present. ``is_history``: they are the history of a training, whose steps have numbers
    of its machine beside its losses.
    """

    def __init__(self, url: str, *, is_history: bool = False) -> None:
        self.is_history = is_history
        self._url = url
        self._files: dict[str, tuple[bytes, float]] = {}
        self._keys: list[str] = []
        self.written_at: float | None = None

    @property
    def url(self) -> str:
        return self._url

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        begin = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        keys = islice(self._keys, begin, None)
        return (self.head(key) for key in takewhile(methodcaller("startswith", prefix), keys))

    def head(self, key: str) -> Object:
        data, modified = self._file(key)
        return Object(key, len(data), modified)

    def read(self, key: str, limit: int | None = None) -> bytes:
        data, _ = self._file(key)
        if limit is not None and len(data) > limit:
            raise TooLarge(self._url, key, len(data), limit)
        return data

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        data, _ = self._file(key)
        for start, length in ranges:
            if start + length > len(data):
                raise Truncated(self._url, key, start + length)
        return [data[start : start + length] for start, length in ranges]

    def write(self, key: str, data: bytes) -> None:
        if key not in self._files:
            insort(self._keys, key)
        modified = time.time() if self.written_at is None else self.written_at
        self._files[key] = bytes(data), modified

    def _file(self, key: str) -> tuple[bytes, float]:
        try:
            return self._files[key]
        except KeyError:
            raise NotFound(self._url, key) from None
