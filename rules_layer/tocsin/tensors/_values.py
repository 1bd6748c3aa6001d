"""The values of one index file, in few reads."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors._arrays import content_bytes
from tocsin.tensors._bfloat16 import BFLOAT16, from_bfloat16
from tocsin.tensors._encoding import labels, step_field
from tocsin.tensors._event import Unreadable, decode_record
from tocsin.tensors._index import Entry, IndexFile
from tocsin.tensors._storage import NotFound, Storage, Truncated, coalesce
from tocsin.tensors._usual import Usual

Value = NDArray[Any] | Unreadable
Timed = tuple[float, NDArray[Any]] | Unreadable


def read_values(
    storage: Storage, index: IndexFile, names: Collection[str] | None = None
) -> dict[str, Value]:
    """The values of the tensors in ``names`` (all by default), or why one cannot be read.

    Tensors without a record, known by shape or summary, are not in the result. Values are
    read-only views of the bytes that were read, which neighbours share; bfloat16 comes as float32.
    """
    timed = read_timed_values(storage, index, names)
    return {n: found if isinstance(found, Unreadable) else found[1] for n, found in timed.items()}


def read_timed_values(
    storage: Storage, index: IndexFile, names: Collection[str] | None = None
) -> dict[str, Timed]:
    """The same, each value behind the time of its record, in seconds since the epoch."""
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
) -> dict[str, Timed]:
    spans = coalesce([(entry.start or 0, entry.length or 0) for entry in wanted])
    usual = Usual(step_field(index.step), labels(index.mode, index.mode_step))
    values: dict[str, Timed] = {}
    for span, data in zip(
        spans, storage.read_ranges(key, [(s.start, s.length) for s in spans]), strict=True
    ):
        for member in span.members:
            entry = wanted[member]
            start, length = (entry.start or 0) - span.start, entry.length or 0
            try:
                time, value = usual.read(data, start, length, entry.name) or _parsed(
                    memoryview(data)[start : start + length], entry, index
                )
                values[entry.name] = time, _checked(value, entry)
            except Unreadable as reason:
                values[entry.name] = reason
    return values


def _read_what_is_there(
    storage: Storage, index: IndexFile, key: str, wanted: Sequence[Entry]
) -> dict[str, Timed]:
    size = storage.head(key).size
    reason = f"event file {key} ends at byte {size}, before the end of the tensor"
    values: dict[str, Timed] = {entry.name: Unreadable(reason) for entry in wanted}
    whole = [e for e in wanted if (e.start or 0) + (e.length or 0) <= size]
    return values | _read(storage, index, key, whole)


def _parsed(frame: memoryview, entry: Entry, index: IndexFile) -> tuple[float, NDArray[Any]]:
    record = decode_record(frame)
    if record.name != entry.name or record.step != index.step:
        raise Unreadable(
            f"index names another tensor: {record.name[:80]!r} of step {record.step} is there"
        )
    return record.wall_time, record.value


def _checked(value: NDArray[Any], entry: Entry) -> NDArray[Any]:
    """The value that the index means, if it has the content that the index says."""
    if entry.crc32 is not None and zlib.crc32(content_bytes(value)) != entry.crc32:
        raise Unreadable("content does not have the checksum that the index names")
    if entry.dtype == BFLOAT16 and value.dtype == np.uint16:
        value = from_bfloat16(value)
        value.flags.writeable = False
    return value
