"""Records of an event file, written.

When a tensor is saved step after step, only the time, the step and the content change: the bytes
around them are made once and kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.tensors import protobuf as pb
from tocsin.tensors.arrays import content_bytes, texts
from tocsin.tensors.crc32c import crc32c, mask
from tocsin.tensors.dtypes import code_of, is_text
from tocsin.tensors.event import CONSTANT, FOOT, MAX_DIMENSIONS, MAX_NAME, TIME, Record

_KEPT = 1 << 14  # tensors of a large model, twice over

Piece = bytes | memoryview


def encode_record(record: Record, *, checksum: bool = False) -> bytes:
    """Return the bytes of one record, with smdebug's constant or (``checksum``) a true CRC at its
    end.

    Raises ValueError for a value of a type that the format cannot carry.
    """
    content = b"" if is_text(record.value.dtype) else content_bytes(record.value)
    before = moment(record.wall_time, step_field(record.step))
    after = labels(record.mode, record.mode_step)
    return b"".join(pieces(record.name, record.value, content, before, after, checksum=checksum))


def pieces(
    name: str,
    value: NDArray[Any],
    content: Piece,
    before: bytes,
    after: bytes,
    *,
    checksum: bool = False,
) -> tuple[Piece, ...]:
    """Return a record in pieces to be joined, so that ``content``, the value's bytes, is copied
    once.

    ``before`` is the ``moment`` of the record, ``after`` are its ``labels``.
    """
    if is_text(value.dtype):
        strings = b"".join(pb.message(8, text.encode()) for text in texts(value))
        tensor = _shape(name, value.shape) + strings
        head, middle = _around(name, tensor, 0, len(before), len(after))
    else:
        lengths = len(content), len(before), len(after)
        head, middle = _around_numbers(name, value.shape, code_of(value.dtype), *lengths)
    footer = _CONSTANT
    if checksum:
        body = crc32c(content, crc32c(before + middle))
        footer = FOOT.pack(mask(crc32c(after, body)))
    return head, before, middle, content, after, footer


def moment(wall_time: float, step: bytes) -> bytes:
    """Return the beginning of a record; ``step`` is its ``step_field``."""
    return b"\x09" + TIME.pack(wall_time) + step if wall_time else step


@lru_cache(maxsize=1 << 12)
def step_field(step: int) -> bytes:
    """Return the number of a step, of all modes."""
    return pb.integer(2, step)


@lru_cache
def labels(mode: Mode, mode_step: int) -> bytes:
    """Return the end of a record."""
    return pb.message(9, _label("mode_step", mode_step) + _label("mode", mode))


@lru_cache(maxsize=_KEPT)
def head(length: int) -> bytes:
    """Return the length of a payload and its checksum."""
    encoded = length.to_bytes(8, "little")
    return encoded + FOOT.pack(mask(crc32c(encoded)))


_CONSTANT = FOOT.pack(CONSTANT)


@lru_cache(maxsize=_KEPT)
def _around_numbers(
    name: str, shape: tuple[int, ...], code: int, content: int, before: int, after: int
) -> tuple[bytes, bytes]:
    tensor = pb.integer(1, code) + _shape(name, shape)
    if content:
        tensor += pb.prefix(4, content)
    return _around(name, tensor, content, before, after)


def _around(name: str, tensor: bytes, content: int, before: int, after: int) -> tuple[bytes, bytes]:
    """The head of a record, and the bytes between its moment and its content.

    ``tensor`` is the tensor without its content; the numbers are lengths of the other pieces.
    """
    if not 0 < len(name) <= MAX_NAME:
        raise ValueError(f"tensor {name[:80]!r} has too long a name")
    tensor = pb.message(1, name.encode()) + pb.prefix(8, len(tensor) + content) + tensor
    value = pb.prefix(1, len(tensor) + content + after) + tensor
    summary = pb.prefix(5, len(value) + content + after) + value
    return head(before + len(summary) + content + after), summary


def _shape(name: str, shape: tuple[int, ...]) -> bytes:
    if len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"tensor {name[:80]!r} has too many dimensions")
    return pb.message(2, b"".join(_dimension(name, size) for size in shape))


def _dimension(name: str, size: int) -> bytes:
    return pb.message(2, pb.integer(1, size) + pb.message(2, f"{name}_{size}".encode()))


def _label(key: str, value: int) -> bytes:
    return pb.message(1, pb.message(1, key.encode()) + pb.message(2, str(int(value)).encode()))
