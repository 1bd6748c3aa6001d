"""Reads the records of tensors, and parses few of them.

Records of one tensor are alike from step to step: where a record has the same bytes around its
content as one that was parsed and checked before, its value is at the same place.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors.arrays import content_bytes
from tocsin.tensors.bfloat16 import BFLOAT16, from_bfloat16
from tocsin.tensors.encoding import step_field
from tocsin.tensors.event import CONSTANT, FOOT, Record, Unreadable, decode_record

if TYPE_CHECKING:
    from typing_extensions import Self

# length 8 | its checksum 4 | tag of the time 1 | time 8 | step | … content … | mode | footer 4
_TIME = 13
_STEP = 21
_CONSTANT = FOOT.pack(CONSTANT)  # the footer that stands for a checksum
_MOST = 1 << 12  # patterns in memory; with the next, a bound on what a bad run can fill
_LARGEST = 1 << 13  # bytes

Bytes = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Pattern:
    """The bytes around the content that do not change from step to step."""

    head: bytes
    middle: bytes
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, frame: memoryview, step: int, value: NDArray[Any]) -> Self | None:
        """Return the pattern of records like ``frame``, whose checked value is ``value``, a view of
        it.

        None for one that differs from what smdebug writes, or holds strings.
        """
        field = step_field(step)
        offset = _address(value) - _address(np.frombuffer(frame, np.uint8))
        inside = _STEP + len(field) <= offset <= len(frame) - len(_CONSTANT) - value.nbytes
        if (
            not inside
            or offset > _LARGEST
            or not value.size
            or value.dtype.kind not in "biufc"
            or frame[-len(_CONSTANT) :] != _CONSTANT
            or frame[_TIME - 1] != 0x09
            or frame[_STEP : _STEP + len(field)] != field
        ):
            return None
        middle = bytes(frame[_STEP + len(field) : offset])
        return cls(bytes(frame[:_TIME]), middle, offset, value.dtype, value.shape)

    def read(self, data: Bytes, start: int, length: int, step: int) -> NDArray[Any] | None:
        """Return the value of the record at ``start``, as a view; None when the record is
        another."""
        end = start + length
        if (
            data[start : start + _TIME] == self.head
            and data[start + _STEP : start + self.offset] == step_field(step) + self.middle
            and data[end - len(_CONSTANT) : end] == _CONSTANT
        ):
            value: NDArray[Any] = np.ndarray(self.shape, self.dtype, data, start + self.offset)
            return value
        return None


class RecordReader:
    """Reads records, and remembers a pattern of each tensor for the next step."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, int], Pattern] = {}

    def read(self, data: Bytes, start: int, length: int, name: str, step: int) -> NDArray[Any]:
        """Return the value of the record at ``start``, as a view of the data. Raises Unreadable."""
        pattern = self._patterns.get((name, length))
        value = pattern.read(data, start, length, step) if pattern is not None else None
        if value is not None:
            return value
        frame = memoryview(data)[start : start + length]
        value = parsed(frame, name, step).value
        pattern = Pattern.of(frame, step, value)
        if pattern is not None:
            if len(self._patterns) >= _MOST:
                self._patterns.clear()
            self._patterns[name, length] = pattern
        return value

    def offset(self, name: str, length: int) -> int:
        """Return the expected offset of the content in a record; 0 if it is not known."""
        pattern = self._patterns.get((name, length))
        return 0 if pattern is None else pattern.offset


def parsed(frame: memoryview, name: str, step: int) -> Record:
    """Return the record that fills ``frame``. Raises Unreadable if it is not that of this
    tensor."""
    record = decode_record(frame)
    if record.name != name or record.step != step:
        raise Unreadable(
            f"index names another tensor: {record.name[:80]!r} of step {record.step} is there"
        )
    return record


def checked(value: NDArray[Any], crc32: int | None, dtype: str | None) -> NDArray[Any]:
    """Return the value that an index entry means, if it has the content that the entry says.

    bfloat16 is stored as its bits, and comes as float32. Raises Unreadable.
    """
    if crc32 is not None and zlib.crc32(content_bytes(value)) != crc32:
        raise Unreadable("content does not match the checksum in the index")
    return from_bfloat16(value) if dtype == BFLOAT16 and value.dtype == np.uint16 else value


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
