"""A trial's run in S3, or in any storage that lists its keys in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tocsin.tensors import (
    INDEX,
    IndexFile,
    NotFound,
    Object,
    Storage,
    after_step,
    parse_index_key,
    read_index,
)
from tocsin.trial.source import READERS, NewFile, StepRange

_OVERLAP = 200  # so many of the newest files are listed again, for those that came out of order
_LONG_STEPS = 10**11  # longer buckets sort before shorter ones: from there on order says nothing


class Remote:
    """Lists the files after the newest known ones, and fetches many at a time."""

    remote = True

    def __init__(self, storage: Storage, steps: StepRange) -> None:
        self._storage = storage
        self._steps = steps
        self._read: dict[str, object] = {}
        self._newest: list[str] = []
        self._in_order = True

    def new_files(self, *, everything: bool = False) -> Sequence[NewFile]:
        after = after_step(min(self._steps.first or 0, _LONG_STEPS) - 1)
        if self._in_order and len(self._newest) == _OVERLAP and not everything:
            after = max(after, self._newest[0])
        new = []
        for listed in self._storage.list(INDEX, after):
            place = parse_index_key(listed.key)
            if place is None:
                continue
            if self._steps.end is not None and self._steps.end <= place[0] <= _LONG_STEPS:
                break  # and so are all after it
            if place[0] not in self._steps:
                continue
            found = NewFile(listed.key, *place, listed.modified, (listed.size, listed.modified))
            if self._read.get(listed.key) != found.stamp:
                new.append(found)
        return sorted(new, key=lambda found: (found.step, found.worker))

    def indexes(self, found: Sequence[NewFile]) -> Iterator[IndexFile | Exception]:
        if not found:
            return
        with ThreadPoolExecutor(READERS) as pool:
            for one, index in zip(found, pool.map(self._index, found), strict=True):
                self._read[one.key] = one.stamp
                yield index
        self._in_order = self._in_order and found[-1].step < _LONG_STEPS
        self._newest = sorted({*self._newest, *(one.key for one in found)})[-_OVERLAP:]

    def read(self, key: str, start: int, length: int, align: int = 0) -> bytes:
        return self._storage.read_ranges(key, [(start, length)])[0]

    def _index(self, found: NewFile) -> IndexFile | Exception:
        try:
            return read_index(self._storage, Object(found.key, 0, 0.0))
        except (ValueError, NotFound) as error:
            return error
