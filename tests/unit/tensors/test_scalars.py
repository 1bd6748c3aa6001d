"""Scalars in event files, as each library writes them."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import Mode
from tocsin.tensors import Record, Unreadable, encode_record, event_scalars, is_event_file
from tocsin.tensors import protobuf as pb
from tocsin.tensors.crc32c import crc32c, mask

_FLOAT, _DOUBLE, _INT32, _STRING = 1, 2, 3, 7


def framed(event: bytes) -> bytes:
    """A record of TensorBoard."""
    head = len(event).to_bytes(8, "little")
    sums = (struct.pack("<I", mask(crc32c(data))) for data in (head, event))
    return head + next(sums) + event + next(sums)


def event(step: int, *values: bytes) -> bytes:
    summary = b"".join(pb.message(1, value) for value in values)
    moment = b"\x09" + struct.pack("<d", 1.7e9) + pb.integer(2, step)
    return framed(moment + pb.message(5, summary))


def simple(name: str, number: float) -> bytes:
    return pb.message(1, name.encode()) + b"\x15" + struct.pack("<f", number)


def tensor(name: str, content: bytes) -> bytes:
    return pb.message(1, name.encode()) + pb.message(8, content)


_SHAPE_OF_NONE = pb.message(2, b"")
_SHAPE_OF_3 = pb.message(2, pb.message(2, pb.integer(1, 3)))
FLOATS = pb.integer(1, _FLOAT)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (simple("loss", 0.5), 0.5),
        (simple("loss", float("inf")), float("inf")),
        (tensor("loss", FLOATS + _SHAPE_OF_NONE + pb.message(4, struct.pack("<f", 2.5))), 2.5),
        (tensor("loss", FLOATS + pb.message(5, struct.pack("<f", 2.5))), 2.5),
        (tensor("loss", FLOATS + b"\x2d" + struct.pack("<f", 2.5)), 2.5),
        (tensor("loss", pb.integer(1, _DOUBLE) + pb.message(6, struct.pack("<d", 0.1))), 0.1),
        (tensor("loss", pb.integer(1, _INT32) + pb.message(7, b"\x07")), 7.0),
        (tensor("loss", FLOATS + _SHAPE_OF_3 + pb.message(4, bytes(12))), None),
        (tensor("loss", FLOATS + pb.message(5, bytes(12))), None),
        (tensor("loss", pb.integer(1, _STRING) + pb.message(8, b"text")), None),
        (pb.message(1, b"loss") + pb.message(5, b""), None),
        (simple("", 1.0), None),
    ],
)
def test_one_value(value: bytes, expected: float | None) -> None:
    file = framed(pb.message(3, b"brain.Event:2")) + event(7, value)
    assert is_event_file(file)
    found = list(event_scalars(io.BytesIO(file)))
    assert found == ([] if expected is None else [("loss", 7, 1.7e9, expected)])


def test_several_values_large_records_and_records_of_smdebug() -> None:
    large = event(1, simple("image", 1), tensor("image", pb.message(4, bytes(1 << 20))))
    record = Record("loss", 3, 1.0, Mode.TRAIN, 3, np.array([4.0], np.float32))
    file = event(0, simple("a", 1), simple("b", 2)) + large + encode_record(record)
    found = [(scalar.name, scalar.step, scalar.value) for scalar in event_scalars(io.BytesIO(file))]
    assert found == [("a", 0, 1.0), ("b", 0, 2.0), ("loss", 3, 4.0)]


WHOLE = event(1, simple("loss", 1))


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (WHOLE[:-1], "breaks off"),
        (WHOLE[:5], "breaks off"),
        (bytes(40), "no record begins"),
        (WHOLE[:-4] + b"wrong"[:4], "checksum"),
        (framed(b"\x2a\xff\x01"), "is damaged"),
        (event(1, pb.message(1, b"\xff\xfe") + b"\x15" + bytes(4)), "is damaged"),
        (event(1, tensor("x", pb.message(5, b"123"))), "is damaged"),
    ],
)
def test_damage_costs_what_comes_after_it(after: bytes, why: str) -> None:
    found = event_scalars(io.BytesIO(WHOLE + after))
    assert next(found).name == "loss"
    with pytest.raises(Unreadable, match=why):
        next(found)


def test_other_files_are_not_event_files() -> None:
    assert not is_event_file(b"step,loss\n0,1\n")
    assert not is_event_file(b"")


@given(st.binary(max_size=64), st.integers(0, 40), st.integers(0, 255))
def test_bytes_that_nobody_has_checked_are_refused_in_one_way(data: bytes, at: int, byte: int):
    payload = bytearray(event(1, tensor("loss", FLOATS + pb.message(5, data)))[12:-4])
    payload[at % len(payload)] = byte
    try:
        found = list(event_scalars(io.BytesIO(framed(bytes(payload)) + data)))
    except Unreadable:
        return
    assert all(isinstance(scalar.value, float) for scalar in found)
