"""The values of a trial: few reads, a bounded cache, and arrays of the caller's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from tocsin.tensors import NotFound, RecordReader, Truncated, Unreadable, checked
from tocsin.trial.source import READERS, Source
from tocsin.trial.table import SMALL, Block, Place, StepFile

Bytes = bytes | memoryview

_CACHE = 32 * 1024 * 1024
_AHEAD = 16 * 1024 * 1024


class Values:
    """Reads records in blocks, and keeps those blocks that will be asked for again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._kept: dict[tuple[StepFile, Block], Bytes] = {}
        self._size = 0
        self._records = RecordReader()

    def read(self, file: StepFile, position: int) -> NDArray[Any]:
        """Return one value, in memory of its own.

        Raises NotFound when the event file is missing, Unreadable when the record is damaged.
        """
        block = file.places.blocks[position]
        data = self._kept.get((file, block))
        if data is not None:
            return self._decode(data, block[0], file, position).copy()
        data, first = self._fetch(file, position, block)
        value = self._decode(data, first, file, position)
        if len(data) == block[1] and self._keeps(file, position, block):
            self._keep(file, block, data)
            return value.copy()
        return value if value.flags.writeable and value.flags.aligned else value.copy()

    def read_many(self, places: Sequence[Place]) -> Iterator[NDArray[Any] | NotFound | Unreadable]:
        """Values in the order given, or why one cannot be read.

        Where a value takes a request, many are sent at a time.
        """
        for batch in self._batches(places) if self._source.remote else (places,):
            if self._source.remote:
                self._fetch_ahead(batch)
            for place in batch:
                try:
                    yield self.read(*place)
                except (NotFound, Unreadable) as error:
                    yield error

    def _batches(self, places: Sequence[Place]) -> Iterator[Sequence[Place]]:
        """As many at a time as fit into half of the cache."""
        begin = size = 0
        for number, (file, position) in enumerate(places):
            size += file.places.blocks[position][1]
            if size > _AHEAD and number > begin:
                yield places[begin:number]
                begin, size = number, file.places.blocks[position][1]
        yield places[begin:]

    def _fetch_ahead(self, places: Sequence[Place]) -> None:
        wanted = dict.fromkeys((file, file.places.blocks[position]) for file, position in places)
        missing = [key for key in wanted if key not in self._kept and key[1][1] <= _AHEAD]
        if len(missing) < 2:
            return
        with ThreadPoolExecutor(min(READERS, len(missing))) as pool:
            for (file, block), data in zip(missing, pool.map(self._try, missing), strict=True):
                if data is not None:
                    self._keep(file, block, data)

    def _try(self, key: tuple[StepFile, Block]) -> Bytes | None:
        with suppress(NotFound, ValueError):  # which reading the value itself will meet again
            return self._source.read(key[0].event_key or "", *key[1])
        return None

    def _fetch(self, file: StepFile, position: int, block: Block) -> tuple[Bytes, int]:
        """The bytes of a block, or of the one record where the rest is not there; their place."""
        start, length = own = (file.places.starts[position], file.places.lengths[position])
        try:
            if block != own:
                with suppress(Truncated):
                    return self._source.read(file.event_key or "", *block), block[0]
            align = self._records.offset(file.layout.names[position], length)
            return self._source.read(file.event_key or "", start, length, align), start
        except ValueError as error:
            raise self._unreadable(file, position, str(error)) from None

    def _keeps(self, file: StepFile, position: int, block: Block) -> bool:
        """Return whether to keep a block: not what will hardly be asked for again, nor what is
        huge."""
        shared = block[1] > file.places.lengths[position]
        return (shared or block[1] <= SMALL or self._source.remote) and block[1] <= _AHEAD

    def _keep(self, file: StepFile, block: Block, data: Bytes) -> None:
        self._kept[file, block] = bytes(data)
        self._size += len(data)
        while self._size > _CACHE:  # the oldest goes first: that is as good, and quicker
            self._size -= len(self._kept.pop(next(iter(self._kept))))

    def _decode(self, data: Bytes, first: int, file: StepFile, position: int) -> NDArray[Any]:
        """The checked value of an entry, as a view of the data."""
        places, layout = file.places, file.layout
        start, length = places.starts[position] - first, places.lengths[position]
        try:
            value = self._records.read(data, start, length, layout.names[position], file.step)
            crc = None if file.crcs is None else file.crcs[position]
            return checked(value, crc, layout.dtypes[position])
        except Unreadable as error:
            raise self._unreadable(file, position, str(error)) from None

    @staticmethod
    def _unreadable(file: StepFile, position: int, reason: str) -> Unreadable:
        name = file.layout.names[position]
        return Unreadable(f"tensor {name} of step {file.step} by {file.worker}: {reason}")
