"""A run's files as a look may read them: until its time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tocsin.tensors import Object, Storage
from tocsin.tensors.storage import Parts


class OutOfTime(Exception):
    """A look was still reading the run's files when its time was up."""

    def __init__(self, run: str, key: str) -> None:
        super().__init__(f"{run}: time is up at {key}")


@dataclass(frozen=True)
class BoundedFiles:
    """The files of ``storage``, each call and each listed file only before ``until``."""

    storage: Storage
    until: float
    now: Callable[[], float]

    @property
    def url(self) -> str:
        return self.storage.url

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        self._check(prefix)
        for found in self.storage.list(prefix, after):
            yield found
            self._check(found.key)

    def head(self, key: str) -> Object:
        self._check(key)
        return self.storage.head(key)

    def read(self, key: str, limit: int | None = None) -> bytes:
        self._check(key)
        return self.storage.read(key, limit)

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        self._check(key)
        return self.storage.read_ranges(key, ranges)

    def write(self, key: str, data: bytes) -> None:
        self._check(key)
        self.storage.write(key, data)

    def _check(self, key: str) -> None:
        if self.now() >= self.until:
            raise OutOfTime(self.url, key)
