"""Records in the layout that smdebug and our writer give them, recognised without parsing.

Nearly every record is such a one. Its fields come in order, and what its index file says of it
(name, step, mode) must stand in it at the places where it stands in all others, so comparing
bytes is enough. Whatever looks different in the least is left to the parser.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors import _protobuf as pb
from tocsin.tensors._dtypes import dtype_of
from tocsin.tensors._encoding import head
from tocsin.tensors._event import CONSTANT, FOOT, FRAME, TIME, shape_of

_KEPT = 1 << 12  # names and shapes of a model; with the next, a bound on what a bad run can fill
_LARGEST_SHAPE = 1 << 12  # bytes
_TIME = 12  # where the time stands in a record, and behind it the step
_STEP = _TIME + 9
_FOOTER = FOOT.pack(CONSTANT)


class Usual:
    """What the records of one file have in common: the bytes of its step, and of its labels."""

    def __init__(self, step: bytes, labels: bytes) -> None:
        self._step = step + b"\x2a"
        self._end = labels + _FOOTER

    def read(
        self, data: bytes, start: int, length: int, name: str
    ) -> tuple[float, NDArray[Any]] | None:
        """The time and, as a view, the numbers in the record at ``start``, if it is as usual."""
        end = start + length - len(self._end)
        if end < start + _STEP:
            return None
        tag = _tag(name)
        at = data.find(tag, start + _STEP, start + _STEP + len(tag) + 20)
        if (
            at < 0
            or not data.startswith(head(length - FRAME), start)
            or data[start + _TIME] != 0x09
            or not data.startswith(self._step, start + _STEP)
            or not data.startswith(self._end, end)
        ):
            return None
        try:
            value = _tensor(data, at + len(tag), end)
        except (ValueError, IndexError):
            return None
        return None if value is None else (TIME.unpack_from(data, start + _TIME + 1)[0], value)


def _tensor(data: bytes, at: int, end: int) -> NDArray[Any] | None:
    """The tensor whose length stands at ``at`` and whose content reaches to ``end``."""
    length, at = pb.varint_at(data, at)
    if length != end - at or data[at] != 0x08:
        return None
    code, at = pb.varint_at(data, at + 1)
    if data[at] != 0x12:
        return None
    length, at = pb.varint_at(data, at + 1)
    if length > _LARGEST_SHAPE:
        return None
    shape, size = _shape(data[at : at + length])
    at += length
    if not size:
        return np.empty(shape, dtype_of(code)) if at == end else None
    if data[at] != 0x22:
        return None
    length, at = pb.varint_at(data, at + 1)
    dtype = dtype_of(code)
    if length != end - at or length != size * dtype.itemsize:
        return None
    return np.frombuffer(data, dtype, size, at).reshape(shape)


@lru_cache(maxsize=_KEPT)
def _tag(name: str) -> bytes:
    """The name, and the beginning of the tensor behind it."""
    return pb.message(1, name.encode()) + b"\x42"


@lru_cache(maxsize=_KEPT)
def _shape(message: bytes) -> tuple[tuple[int, ...], int]:
    shape = shape_of(memoryview(message))
    return shape, math.prod(shape)
