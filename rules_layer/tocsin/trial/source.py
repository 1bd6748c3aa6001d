"""The source of a trial's files: a folder or a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tocsin.tensors import IndexFile

READERS = 16  # requests at a time, where they take long


@dataclass(frozen=True, slots=True)
class NewFile:
    """An index file; a file that is written again has another ``stamp``.

    ``modified`` is in seconds since the epoch.
    """

    key: str
    step: int
    worker: str
    modified: float
    stamp: object


@dataclass(frozen=True, slots=True)
class StepRange:
    """The global steps to look at: from ``first`` on, up to but not including ``end``."""

    first: int | None = None
    end: int | None = None

    def __contains__(self, step: int) -> bool:
        return (self.first is None or step >= self.first) and (self.end is None or step < self.end)


class Source(Protocol):
    """Finds new files, and reads them."""

    @property
    def remote(self) -> bool:
        """Return whether a request takes long enough to ask few of them, and many at a time."""

    def new_files(self, *, everything: bool = False) -> Sequence[NewFile]:
        """Index files that were not read yet, or were written again, in the order of steps.

        Where looking costs, only the newest part of the run is looked at, unless ``everything``.
        """

    def indexes(self, found: Sequence[NewFile]) -> Iterator[IndexFile | Exception]:
        """Return the content of those files, in the order given, or why one cannot be used."""

    def read(self, key: str, start: int, length: int, align: int = 0) -> bytes | memoryview:
        """Bytes of an event file. Raises NotFound, Truncated, and ValueError for a bad key.

        A memoryview is memory for the caller to keep, its byte ``align`` at a round address.
        """
