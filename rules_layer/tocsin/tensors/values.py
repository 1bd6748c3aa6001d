"""The values of one index file, in few reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from tocsin.tensors.event import Unreadable
from tocsin.tensors.index import Entry, IndexFile
from tocsin.tensors.records import RecordReader, checked, parsed
from tocsin.tensors.storage import NotFound, Storage, Truncated, coalesce

Value = NDArray[Any] | Unreadable
Timed = tuple[float, NDArray[Any]] | Unreadable

T = TypeVar("T")
_Decode = Callable[[bytes, int, Entry, int], T]
"""Reads the record of an entry that begins at a byte of the data; the last number is its step."""

_records = RecordReader()


def read_values(
    storage: Storage, index: IndexFile, names: Collection[str] | None = None
) -> dict[str, Value]:
    """Return the values of the tensors in ``names`` (all by default), or why one cannot be read.

    Tensors without a record, known by shape or summary, are not in the result. Values are
    read-only views of the bytes that were read, which neighbours share; bfloat16 comes as float32.
    """
    return _read_all(storage, index, names, _value)


def read_timed_values(
    storage: Storage, index: IndexFile, names: Collection[str] | None = None
) -> dict[str, Timed]:
    """Return the same, each value with the time of its record, in seconds since the epoch."""
    return _read_all(storage, index, names, _timed)


def _value(data: bytes, start: int, entry: Entry, step: int) -> NDArray[Any]:
    value = _records.read(data, start, entry.length or 0, entry.name, step)
    value = checked(value, entry.crc32, entry.dtype)
    value.flags.writeable = False
    return value


def _timed(data: bytes, start: int, entry: Entry, step: int) -> tuple[float, NDArray[Any]]:
    frame = memoryview(data)[start : start + (entry.length or 0)]
    record = parsed(frame, entry.name, step)
    return record.wall_time, checked(record.value, entry.crc32, entry.dtype)


def _read_all(
    storage: Storage, index: IndexFile, names: Collection[str] | None, decode: _Decode[T]
) -> dict[str, T | Unreadable]:
    wanted = [
        e for e in index.entries if e.start is not None and (names is None or e.name in names)
    ]
    if index.event_key is None or not wanted:
        return {}
    try:
        return _read(storage, index, index.event_key, wanted, decode)
    except NotFound:
        reason = f"event file {index.event_key} is missing"
        return {entry.name: Unreadable(reason) for entry in wanted}
    except Truncated:
        return _read_what_is_there(storage, index, index.event_key, wanted, decode)
    except ValueError as error:  # a link that leads out of the run
        return {entry.name: Unreadable(str(error)) for entry in wanted}


def _read(
    storage: Storage, index: IndexFile, key: str, wanted: Sequence[Entry], decode: _Decode[T]
) -> dict[str, T | Unreadable]:
    spans = coalesce([(entry.start or 0, entry.length or 0) for entry in wanted])
    values: dict[str, T | Unreadable] = {}
    parts = storage.read_ranges(key, [(span.start, span.length) for span in spans])
    for span, data in zip(spans, parts, strict=True):
        for member in span.members:
            entry = wanted[member]
            try:
                values[entry.name] = decode(
                    data, (entry.start or 0) - span.start, entry, index.step
                )
            except Unreadable as reason:
                values[entry.name] = reason
    return values


def _read_what_is_there(
    storage: Storage, index: IndexFile, key: str, wanted: Sequence[Entry], decode: _Decode[T]
) -> dict[str, T | Unreadable]:
    size = storage.head(key).size
    reason = f"event file {key} ends at byte {size}, before the end of the tensor"
    values: dict[str, T | Unreadable] = {entry.name: Unreadable(reason) for entry in wanted}
    whole = [e for e in wanted if (e.start or 0) + (e.length or 0) <= size]
    return values | _read(storage, index, key, whole, decode)
