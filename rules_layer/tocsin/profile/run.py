"""A machine run as Amazon's profiler files show it: index files that are made when they are read.

Evaluation and reports list, read and settle them as those of our hook.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, groupby, islice, takewhile
from typing import Any

from tocsin.model import Mode
from tocsin.profile.amazon_minutes import minute_of
from tocsin.profile.keys import ENDS
from tocsin.profile.minute import entries
from tocsin.profile.reading import (
    Note,
    event_files,
    has_profiler_files,
    log,
    read_samples,
    system_files,
)
from tocsin.profile.timelines import Timelines
from tocsin.tensors import (
    COLLECTIONS,
    END_MARKER,
    INDEX,
    MemoryStorage,
    NotFound,
    Object,
    Storage,
    TooLarge,
    collections_key,
    encode_collections,
    index_key,
    is_machine_run,
    open_storage,
    parse_collections_key,
    parse_index_key,
    write_step,
)
from tocsin.tensors.storage import Parts

SETTLED = 180.0  # seconds after which no timeline is waited for: the hook closes one each minute
_KEPT = 20_000  # minutes whose files are known
_MADE = (INDEX, COLLECTIONS)
_STEP_OF_KEY = re.compile(r"index/\d+/(\d{12})")
_INDEX_SIZE = 32 << 10  # bytes; what is made of a minute is not larger by much
_FIRST_FILES = 2000  # of system metrics: all nodes have begun


def open_run(url: str, client: Any = None, note: Note = log) -> Storage:
    """Return the run at ``url``, as ``open_storage``. A machine run may hold Amazon's profiler
    files."""
    storage = open_storage(url, client)
    return ProfilerRun(storage, note=note) if is_machine_run(storage.url) else storage


def named_as_run(storage: Storage, note: Note = log) -> Storage:
    """Return the profiler's files in a folder of any name, as a machine run; other runs as they
    are."""
    if isinstance(storage, ProfilerRun):
        return storage
    with suppress(NotFound):  # the bucket
        if next(storage.list(INDEX), None) is None and has_profiler_files(storage):
            return ProfilerRun(storage, f"{storage.url}/profiler-output", note)
    return storage


class ProfilerRun:
    """The files of ``storage``, with an index file for each minute of Amazon's profiler.

    As soon as there is an index file of our own, the others are not shown. A minute is shown when
    the timelines of its steps are there too, or nothing came for ``SETTLED`` seconds.
    """

    def __init__(
        self,
        storage: Storage,
        url: str | None = None,
        note: Note = log,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._storage, self._now = storage, now
        self._note = lru_cache(maxsize=1000)(note)  # a file may be read again
        self._url = storage.url if url is None else url
        self._is_own: bool | None = None  # not known
        self._timelines: Timelines | None = None
        self._files: OrderedDict[tuple[int, str], list[Object]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    def list(self, prefix: str, after: str = "") -> Iterator[Object]:
        there = self._storage.list(prefix, after)
        if self._is_own or not prefix.startswith(_MADE):
            return there
        first = next(there, None)
        if first is not None:
            self._is_own = True
            return chain([first], there)
        if not self._makes():
            return iter(())
        made = self._minutes(after) if prefix.startswith(INDEX) else self._collections()
        return (found for found in made if found.key.startswith(prefix) and found.key > after)

    def head(self, key: str) -> Object:
        if key == END_MARKER:
            found = self._end()
            return Object(END_MARKER, found.size, found.modified)
        found = self._storage.head(key)
        self._is_own = self._is_own or key.startswith(_MADE)
        return found

    def read(self, key: str, limit: int | None = None) -> bytes:
        if key == END_MARKER:
            return self._storage.read(self._end().key, limit)
        if not key.startswith(_MADE):
            return self._storage.read(key, limit)
        if self._is_own is None:
            with suppress(NotFound):
                found = self._storage.read(key, limit)
                self._is_own = True
                return found
        if not self._makes():
            return self._storage.read(key, limit)
        data = self._made(key)
        if limit is not None and len(data) > limit:
            raise TooLarge(self.url, key, len(data), limit)
        return data

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Parts:
        return self._storage.read_ranges(key, ranges)

    def write(self, key: str, data: bytes) -> None:
        self._storage.write(key, data)

    def _makes(self) -> bool:
        """Return whether index and collections files are made here: there are none of our own."""
        if not self._is_own:
            self._is_own = next(self._storage.list(INDEX), None) is not None
        return not self._is_own

    def _end(self) -> Object:
        for key in (END_MARKER,) if self._is_own else (END_MARKER, *ENDS):
            with suppress(NotFound):
                return self._storage.head(key)
        raise NotFound(self.url, END_MARKER)

    def _has_ended(self) -> bool:
        with suppress(NotFound):
            return self._end() is not None
        return False

    def _minutes(self, after: str) -> Iterator[Object]:
        """The index file of each node and minute, in the order of minutes."""
        match = _STEP_OF_KEY.match(after)
        first = int(match[1]) if match else None
        with self._lock:
            self._timelines = timelines = Timelines(self._storage, first, self._note)
        there = False
        for minute, files in groupby(
            system_files(self._storage, first), lambda each: each.place.minute
        ):
            there = True
            nodes: dict[str, list[Object]] = {}
            for place, found in files:
                nodes.setdefault(place.node, []).append(found)
            for node in sorted(nodes):
                if timelines.is_awaited(minute, node) and self._is_young(nodes[node]):
                    continue
                self._remember(minute, node, nodes[node])
                yield _object(minute, node, nodes[node])
        if not there and next(system_files(self._storage), None) is None:
            for minute, node, found in timelines.minutes():
                yield _object(minute, node, [found])

    def _is_young(self, files: Sequence[Object]) -> bool:
        newest = max(found.modified for found in files)
        return self._now() - newest < SETTLED and not self._has_ended()

    def _remember(self, minute: int, node: str, files: Sequence[Object]) -> None:
        with self._lock:
            self._files[minute, node] = [*files]
            if len(self._files) > _KEPT:
                self._files.popitem(last=False)

    def _files_of(self, minute: int, node: str) -> Sequence[Object]:
        with self._lock:
            known = self._files.get((minute, node))
        if known is not None:
            return known
        until = takewhile(
            lambda each: each.place.minute <= minute, system_files(self._storage, minute)
        )
        of = minute, node
        return [each.found for each in until if (each.place.minute, each.place.node) == of]

    def _made(self, key: str) -> bytes:
        """A collections file, or the index file of a minute. Raises NotFound, RefusedFile."""
        if parse_collections_key(key) is not None:
            return encode_collections((), max(1, len(self._nodes())))
        place = parse_index_key(key)
        if place is None:
            raise NotFound(self.url, key)
        minute, node = place
        files = self._files_of(minute, node)
        with self._lock:  # one at a time: the largest file takes 100 MB
            timelines = self._timelines or Timelines(self._storage, minute, self._note)
            self._timelines = timelines
            events = timelines.events(minute, node)
            samples = [
                each for found in files for each in read_samples(self._storage, found, self._note)
            ]
        if not files and not events:
            raise NotFound(self.url, key)
        made = MemoryStorage(self.url)
        write_step(
            made,
            step=minute,
            worker=node,
            mode=Mode.GLOBAL,
            mode_step=minute,
            tensors=entries(minute_of(minute, samples, events)),
        )
        return made.read(key)

    def _collections(self) -> Iterator[Object]:
        for node in sorted(self._nodes())[:1]:
            yield Object(collections_key(node), 0, 0.0)

    def _nodes(self) -> set[str]:
        """The nodes of the job: those that wrote one of the first files."""
        nodes = {each.place.node for each in islice(system_files(self._storage), _FIRST_FILES)}
        if not nodes:
            found = islice(event_files(self._storage), _FIRST_FILES)
            nodes = {each.place.node for each in found}
        return nodes


def _object(minute: int, node: str, files: Sequence[Object]) -> Object:
    size = min(_INDEX_SIZE, sum(found.size for found in files))
    return Object(index_key(minute, node), size, max(found.modified for found in files))
