"""As much of the protobuf wire format as an event file needs, without copying."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}

Value = int | memoryview


class Malformed(ValueError):
    """The bytes are not a protobuf message."""


def varint(value: int) -> bytes:
    """Return a non-negative integer as varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def integer(field: int, value: int) -> bytes:
    """Return an integer field; proto3 leaves a zero out."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def prefix(field: int, length: int) -> bytes:
    """Return the bytes before the ``length`` bytes of a string, bytes or message field."""
    return varint(field << 3 | _BYTES) + varint(length)


def message(field: int, content: bytes) -> bytes:
    """Return a string, bytes or message field, also when empty."""
    return prefix(field, len(content)) + content


def fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Field numbers and values of a message; fixed-width values come as their bytes."""
    position = 0
    while position < len(data):
        tag, position = varint_at(data, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = varint_at(data, position)
            yield tag >> 3, number
            continue
        if kind == _BYTES:
            length, position = varint_at(data, position)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise Malformed(f"wire type {kind} is unknown")
        if length > len(data) - position:
            raise Malformed("a field is longer than its message")
        yield tag >> 3, data[position : position + length]
        position += length


def as_int(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise Malformed("a field is not the integer it should be")


def as_bytes(value: Value) -> memoryview:
    if isinstance(value, memoryview):
        return value
    raise Malformed("a field is not the message it should be")


def as_text(value: Value) -> str:
    return str(as_bytes(value), "utf-8")


def varint_at(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it."""
    value = shift = 0
    while shift < 64 and position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise Malformed("a varint does not end")
