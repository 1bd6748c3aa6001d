"""Records of one tensor are alike: what was checked in one is recognised in the next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

# length 8 | its checksum 4 | tag of the time 1 | time 8 | step | … content … | mode | footer 4
_TIME = 13
_STEP = 21
_CONSTANT = bytes.fromhex("b3c02d06")  # the footer that stands for a checksum

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
        """What to recognise in records like ``frame``, of which ``value`` is a checked view.

        None for one that differs from what smdebug writes, or holds strings.
        """
        field = _step_field(step)
        offset = _address(value) - _address(np.frombuffer(frame, np.uint8))
        inside = _STEP + len(field) <= offset <= len(frame) - len(_CONSTANT) - value.nbytes
        if (
            not inside
            or not value.size
            or value.dtype.kind not in "biufc"
            or frame[-len(_CONSTANT) :] != _CONSTANT
            or frame[_TIME - 1] != 0x09
            or frame[_STEP : _STEP + len(field)] != field
        ):
            return None
        middle = bytes(frame[_STEP + len(field) : offset])
        return cls(bytes(frame[:_TIME]), middle, offset, value.dtype, value.shape)

    def read(self, data: Bytes, base: int, length: int, step: int) -> NDArray[Any] | None:
        """The value of the record at ``base``, as a view; None when the record is another."""
        end = base + length
        if (
            data[base : base + _TIME] == self.head
            and data[base + _STEP : base + self.offset] == _step_field(step) + self.middle
            and data[end - len(_CONSTANT) : end] == _CONSTANT
        ):
            return np.ndarray(self.shape, self.dtype, data, base + self.offset)
        return None


@lru_cache(maxsize=4096)
def _step_field(step: int) -> bytes:
    """The step as it stands in a record: a varint behind its tag, left out when zero."""
    encoded = bytearray(b"\x10" if step else b"")
    while step:
        encoded.append(step & 0x7F | (0x80 if step > 0x7F else 0))
        step >>= 7
    return bytes(encoded)


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
