"""Keeps a trial's catalog up to date with the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tocsin.tensors import (
    COLLECTIONS,
    END_MARKER,
    BadCollections,
    Collections,
    End,
    IndexFile,
    RefusedFile,
    Storage,
    read_collections,
    read_end,
)
from tocsin.trial.catalog import Catalog
from tocsin.trial.source import Source

_LATE = 1.0  # s: so long after one worker has ended the run others may still be writing


@dataclass(frozen=True)
class Clock:
    """The time as a trial sees it, so that a test need not wait."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


class RunFeed(Protocol):
    """Keeps a trial's catalog up to date, and knows the rest of the run."""

    @property
    def collections(self) -> Collections | None: ...

    @property
    def damaged(self) -> Mapping[str, str]: ...

    @property
    def num_workers(self) -> int | None: ...

    def refresh(self, *, force: bool = False) -> None: ...


class Feed:
    """Reads what is new, at most every ``interval`` seconds, until the run has ended."""

    def __init__(
        self, storage: Storage, source: Source, catalog: Catalog, interval: float, clock: Clock
    ) -> None:
        self.collections: Collections | None = None
        self.damaged: dict[str, str] = {}
        self._storage = storage
        self._source = source
        self._catalog = catalog
        self._interval = interval
        self._clock = clock
        self._due: float | None = None
        self._names_then = -1
        self._newest = 0.0  # when the newest index file was written

    @property
    def num_workers(self) -> int | None:
        """As a collections file says it; without any, those that have written, once it ended."""
        if self.collections is not None:
            return self.collections.num_workers
        return max(1, len(self._catalog.workers)) if self._catalog.finished else None

    @property
    def missing(self) -> bool:
        """Return whether a worker has not written its collections file."""
        found = self.collections
        return found is None or len(found.workers) < found.num_workers

    def refresh(self, *, force: bool = False) -> None:
        """Read what is new. Unless forced: not of a run that has ended, nor too soon."""
        now = self._clock.monotonic()
        if not force and (self._catalog.finished or (self._due is not None and now < self._due)):
            return
        first = self._due is None
        end = self._read_end()  # before the list, which then is the last one
        ended = self._is_over(end)
        self._take_indexes(everything=ended and not first)
        self._take_collections(last=ended)
        self._catalog.settle(self.num_workers, finished=False)
        if end is not None and self._is_over(end):
            age = self._clock.wall() - end.modified
            if age < _LATE and not self._catalog.even:
                self._clock.sleep(min(_LATE, _LATE - age))
                self._take_indexes(everything=True)
            self._catalog.settle(self.num_workers, finished=True)
        self._due = self._clock.monotonic() + self._interval

    def _is_over(self, end: End | None) -> bool:
        return end is not None and end.ends(self._catalog.current_starts, self._newest)

    def _read_end(self) -> End | None:
        self.damaged.pop(END_MARKER, None)
        try:
            return read_end(self._storage)
        except RefusedFile as error:
            self.damaged[END_MARKER] = str(error)
            return None

    def _take_indexes(self, *, everything: bool) -> None:
        new = self._source.new_files(everything=everything)
        for found, index in zip(new, self._source.indexes(new), strict=True):
            self.damaged.pop(found.key, None)
            self._newest = max(self._newest, found.modified)
            if isinstance(index, IndexFile):
                self._catalog.add(found.step, found.worker, index)
            else:
                self.damaged[found.key] = str(index)
                self._catalog.add(found.step, found.worker, None)

    def _take_collections(self, *, last: bool) -> None:
        """Hooks write these files again when new tensors appear."""
        names = len(self._catalog.names())
        if not (last or self.missing or names > self._names_then):
            return
        self._names_then = names
        self.damaged.pop(COLLECTIONS, None)
        try:
            self.collections = read_collections(self._storage) or self.collections
        except BadCollections as error:
            self.damaged[COLLECTIONS] = str(error)
