"""Event files: TFRecords of one tensor each.

A record is ``length (8) | masked CRC of the length (4) | protobuf Event | footer (4)``. The
footer should be the CRC of the payload; smdebug writes a constant in its place by default.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.tensors import protobuf as pb
from tocsin.tensors.arrays import text_array
from tocsin.tensors.crc32c import crc32c, mask
from tocsin.tensors.dtypes import STRING_CODES, dtype_of

FRAME = 16
HEAD = struct.Struct("<QI")
FOOT = struct.Struct("<I")
TIME = struct.Struct("<d")
CONSTANT = mask(crc32c(b"0x12345678"))
MAX_DIMENSIONS = 32  # what every numpy can hold
MAX_NAME = 4096
_MAX_STRINGS = 1 << 20
_INT64 = 1 << 63
_EMPTY = memoryview(b"")


class Unreadable(ValueError):
    """One tensor cannot be read; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Record:
    """One tensor of one step. ``step`` counts all modes, ``wall_time`` is in seconds.

    ``value`` is a read-only view of the bytes it was decoded from, or an array of strings.
    """

    name: str
    step: int
    wall_time: float
    mode: Mode
    mode_step: int
    value: NDArray[Any]


def decode_record(frame: bytes | memoryview, *, check: bool = True) -> Record:
    """Return the one record that fills ``frame``. Raises Unreadable with the reason.

    ``check`` compares both checksums; a footer may be smdebug's constant or a true CRC.
    """
    view = memoryview(frame)
    try:
        return _event(_payload(view, check=check))
    except Unreadable:
        raise
    except (ValueError, OverflowError, struct.error) as error:  # of protobuf, UTF-8, numbers
        raise Unreadable(f"record is damaged: {error}") from None


def frames(data: bytes | memoryview) -> Iterator[memoryview]:
    """Yield the records of a whole event file, undecoded. Raises Unreadable where they break
    off."""
    view = memoryview(data)
    while view:
        if len(view) < FRAME:
            raise Unreadable(f"event file is truncated: {len(view)} bytes are not a record")
        length, _ = HEAD.unpack_from(view)
        if length > len(view) - FRAME:
            raise Unreadable(f"event file is truncated within a record of {length} bytes")
        yield view[: FRAME + length]
        view = view[FRAME + length :]


def _payload(view: memoryview, *, check: bool) -> memoryview:
    if len(view) < FRAME:
        raise Unreadable(f"{len(view)} bytes are too few for a record")
    length, length_crc = HEAD.unpack_from(view)
    if check and mask(crc32c(view[:8])) != length_crc:
        raise Unreadable("checksum of the record's length is wrong")
    if length != len(view) - FRAME:
        raise Unreadable(f"record claims {length} bytes but has {len(view) - FRAME}")
    payload = view[HEAD.size : -FOOT.size]
    if check:
        (footer,) = FOOT.unpack_from(view, len(view) - FOOT.size)
        if footer != CONSTANT and footer != mask(crc32c(payload)):
            raise Unreadable("checksum of the record is wrong")
    return payload


def _event(payload: memoryview) -> Record:
    wall_time, step, summary = 0.0, 0, _EMPTY
    for field, value in pb.fields(payload):
        if field == 1:
            (wall_time,) = TIME.unpack(pb.as_bytes(value))
        elif field == 2:
            step = _natural(pb.as_int(value))
        elif field == 5:
            summary = pb.as_bytes(value)
    values = [value for field, value in islice(pb.fields(summary), 2) if field == 1]
    if len(values) != 1:
        raise Unreadable("record does not hold one tensor")
    name, tensor, labels = "", None, dict[str, str]()
    for field, value in pb.fields(pb.as_bytes(values[0])):
        if field == 1:
            name = pb.as_text(value)
        elif field == 8:
            tensor = _tensor(pb.as_bytes(value))
        elif field == 9:
            labels |= _labels(pb.as_bytes(value))
    if tensor is None:
        raise Unreadable("record does not hold one tensor")
    if not 0 < len(name) <= MAX_NAME:
        raise Unreadable(f"name of the tensor has {len(name)} characters")
    mode = Mode(int(labels.get("mode", Mode.GLOBAL)))
    # smdebug writes -1 of a mode that was set and has had no step yet.
    mode_step = _natural(int(labels.get("mode_step", step)) + 1) - 1
    return Record(name, step, wall_time, mode, mode_step, tensor)


def _labels(metadata: memoryview) -> dict[str, str]:
    labels = {}
    for field, value in pb.fields(metadata):
        if field == 1:
            plugin = dict(pb.fields(pb.as_bytes(value)))
            labels[pb.as_text(plugin.get(1, _EMPTY))] = pb.as_text(plugin.get(2, _EMPTY))
    return labels


def _tensor(data: memoryview) -> NDArray[Any]:
    code, shape, content = 0, tuple[int, ...](), _EMPTY
    strings: list[str] = []
    for field, value in pb.fields(data):
        if field == 1:
            code = pb.as_int(value)
        elif field == 2:
            shape = shape_of(pb.as_bytes(value))
        elif field == 4:
            content = pb.as_bytes(value)
        elif field == 8:
            if len(strings) == _MAX_STRINGS:
                raise Unreadable(f"more than {_MAX_STRINGS} strings in one tensor")
            strings.append(pb.as_text(value))
    size = math.prod(shape)
    if code in STRING_CODES:
        if size != len(strings):
            raise Unreadable(f"shape {shape} does not fit {len(strings)} strings")
        return text_array(strings).reshape(shape)
    dtype = dtype_of(code)
    if size * dtype.itemsize != len(content):
        raise Unreadable(f"shape {shape} of {dtype} does not fit {len(content)} bytes")
    return (np.frombuffer(content, dtype) if size else np.empty(0, dtype)).reshape(shape)


def shape_of(data: memoryview) -> tuple[int, ...]:
    """Return the sizes in a TensorShapeProto. Raises ValueError."""
    sizes: list[int] = []
    for field, value in pb.fields(data):
        if field == 2:
            if len(sizes) == MAX_DIMENSIONS:
                raise Unreadable(f"more than {MAX_DIMENSIONS} dimensions")
            dimension = dict(pb.fields(pb.as_bytes(value)))
            sizes.append(_natural(pb.as_int(dimension.get(1, 0))))
    return tuple(sizes)


def _natural(number: int) -> int:
    if not 0 <= number < _INT64:
        raise Unreadable("a number is negative or has more than 63 bits")
    return number
