"""The values of one index file, in few reads."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import Any

from numpy.typing import NDArray

from tocsin.tensors._arrays import content_bytes
from tocsin.tensors._event import Unreadable, decode_record
from tocsin.tensors._index import Entry, IndexFile
from tocsin.tensors._storage import NotFound, Storage, Truncated, coalesce

Value = NDArray[Any] | Unreadable


def read_values(
    storage: Storage, index: IndexFile, names: Collection[str] | None = None
) -> dict[str, Value]:
    """The values of the tensors in ``names`` (all by default), or why one cannot be read.

    Tensors without a record, known by shape or summary, are not in the result. Values are
    read-only views of the bytes that were read; neighbours share them.
    """
    wanted = [
        e for e in index.entries if e.start is not None and (names is None or e.name in names)
    ]
    if index.event_key is None or not wanted:
        return {}
    try:
        return _read(storage, index, index.event_key, wanted)
    except NotFound:
        reason = f"event file {index.event_key} is missing"
        return {entry.name: Unreadable(reason) for entry in wanted}
    except Truncated:
        return _read_what_is_there(storage, index, index.event_key, wanted)
    except ValueError as error:  # a link that leads out of the run
        return {entry.name: Unreadable(str(error)) for entry in wanted}


def _read(
    storage: Storage, index: IndexFile, key: str, wanted: Sequence[Entry]
) -> dict[str, Value]:
    ranges = [(entry.start or 0, entry.length or 0) for entry in wanted]
    spans = coalesce(ranges)
    values: dict[str, Value] = {}
    for span, data in zip(
        spans, storage.read_ranges(key, [(s.start, s.length) for s in spans]), strict=True
    ):
        view = memoryview(data)
        for member in span.members:
            start, length = ranges[member]
            frame = view[start - span.start : start - span.start + length]
            values[wanted[member].name] = _decode(frame, wanted[member], index)
    return values


def _read_what_is_there(
    storage: Storage, index: IndexFile, key: str, wanted: Sequence[Entry]
) -> dict[str, Value]:
    size = storage.head(key).size
    reason = f"event file {key} ends at byte {size}, before the end of the tensor"
    values: dict[str, Value] = {entry.name: Unreadable(reason) for entry in wanted}
    whole = [e for e in wanted if (e.start or 0) + (e.length or 0) <= size]
    return values | _read(storage, index, key, whole)


def _decode(frame: memoryview, entry: Entry, index: IndexFile) -> Value:
    try:
        record = decode_record(frame)
        if record.name != entry.name or record.step != index.step:
            raise Unreadable(
                f"index names another tensor: {record.name[:80]!r} of step {record.step} is there"
            )
        if entry.crc32 is not None and zlib.crc32(content_bytes(record.value)) != entry.crc32:
            raise Unreadable("content does not have the checksum that the index names")
    except Unreadable as error:
        return error
    return record.value
