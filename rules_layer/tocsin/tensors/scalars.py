"""The scalars in event files of TensorBoard."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import SEEK_END
from typing import BinaryIO, NamedTuple

import numpy as np

from tocsin.tensors import protobuf as pb
from tocsin.tensors.crc32c import crc32c, mask
from tocsin.tensors.dtypes import STRING_CODES, dtype_of
from tocsin.tensors.event import CONSTANT, FOOT, HEAD, MAX_NAME, TIME, Unreadable, shape_of

_LARGEST = 1 << 20  # bytes of a record: larger ones hold images or graphs, and are skipped
_SIMPLE = struct.Struct("<f")
_EMPTY = memoryview(b"")

# The fields of a TensorProto that hold numbers one by one, and the types of their bytes.
_NUMBERS = {5: "<f4", 6: "<f8"}
_WHOLE = (7, 10)


class BrokenOff(Unreadable):
    """The file ends within a record, which may still be written."""


class EventScalar(NamedTuple):
    """One number of one step; ``wall_time`` in seconds since the epoch."""

    name: str
    step: int
    wall_time: float
    value: float


def is_event_file(head: bytes) -> bool:
    """Return whether a file that begins with these bytes, 12 at least, holds records."""
    if len(head) < HEAD.size:
        return False
    length, checksum = HEAD.unpack_from(head)
    return bool(length > 0 and mask(crc32c(head[:8])) == checksum)


def event_scalars(file: BinaryIO) -> Iterator[EventScalar]:
    """Yield the scalars of an event file from its position on, in order. Other values are passed
    over.

    Reads ``simple_value`` (TensorFlow 1, PyTorch) and tensors of one number (TensorFlow 2, new
    style of PyTorch). Raises Unreadable where a record is damaged, and BrokenOff where the file
    ends within one: what came before has been yielded, and the file's position is there.
    """
    position = file.tell()
    end = file.seek(0, SEEK_END)
    file.seek(position)
    while position < end:
        head = file.read(HEAD.size)
        if len(head) == HEAD.size and not is_event_file(head):
            raise Unreadable(f"no record begins at byte {position}")
        length = HEAD.unpack(head)[0] if len(head) == HEAD.size else 0
        after = position + HEAD.size + length + FOOT.size
        if after > end:
            file.seek(position)
            raise BrokenOff(f"the file breaks off in the record at byte {position}")
        if length <= _LARGEST:
            yield from _checked(memoryview(file.read(length + FOOT.size)), position)
        position = after
        file.seek(position)


def _checked(frame: memoryview, position: int) -> Iterator[EventScalar]:
    payload = frame[: -FOOT.size]
    (footer,) = FOOT.unpack_from(frame, len(payload))
    if footer not in (CONSTANT, mask(crc32c(payload))):
        raise Unreadable(f"checksum of the record at byte {position} is wrong")
    try:
        yield from _event(payload)
    except (ValueError, OverflowError, struct.error) as error:
        raise Unreadable(f"the record at byte {position} is damaged: {error}") from None


def _event(payload: memoryview) -> Iterator[EventScalar]:
    wall_time, step, summary = 0.0, 0, _EMPTY
    for field, value in pb.fields(payload):
        if field == 1:
            (wall_time,) = TIME.unpack(pb.as_bytes(value))
        elif field == 2:
            step = pb.as_int(value)
        elif field == 5:
            summary = pb.as_bytes(value)
    for field, value in pb.fields(summary):
        if field == 1:
            name, number = _value(pb.as_bytes(value))
            if number is not None and 0 < len(name) <= MAX_NAME:
                yield EventScalar(name, step, wall_time, number)


def _value(data: memoryview) -> tuple[str, float | None]:
    """The tag of a Summary.Value and its number; None where it holds something else."""
    name, number = "", None
    for field, value in pb.fields(data):
        if field == 1:
            name = pb.as_text(value)
        elif field == 2:
            (number,) = _SIMPLE.unpack(pb.as_bytes(value))
        elif field == 8:
            number = _tensor(pb.as_bytes(value))
    return name, number


def _tensor(data: memoryview) -> float | None:
    """The one number of a TensorProto; None where it holds text or another count of numbers."""
    code, shape, content = 0, tuple[int, ...](), _EMPTY
    number: float | None = None
    for field, value in pb.fields(data):
        if field == 1:
            code = pb.as_int(value)
        elif field == 2:
            shape = shape_of(pb.as_bytes(value))
        elif field == 4:
            content = pb.as_bytes(value)
        elif field in _NUMBERS:
            numbers = np.frombuffer(pb.as_bytes(value), _NUMBERS[field])
            number = float(numbers[0]) if len(numbers) == 1 else None
        elif field in _WHOLE:
            number = _whole(value)
    if code in STRING_CODES or any(size != 1 for size in shape):
        return None
    if content:
        numbers = np.frombuffer(content, dtype_of(code))
        return float(numbers[0]) if len(numbers) == 1 and numbers.dtype.kind in "biuf" else None
    return number


def _whole(value: pb.Value) -> float:
    """An integer, alone or as a packed list of one."""
    number = value if isinstance(value, int) else pb.varint_at(value, 0)[0]
    return float(number - (1 << 64) if number >= 1 << 63 else number)
