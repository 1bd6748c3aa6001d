"""Recognising a record by one that was parsed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import Mode
from tocsin.tensors import Record, Unreadable, decode_record, encode_record
from tocsin.trial._pattern import Pattern

VALUES = [
    np.float32(1.5).reshape(()),
    np.arange(3.0),
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array([True, False]),
    np.ones((1, 1, 2), np.complex64),
]


def _frame(value, step=300, name="fc/weight", mode_step=None, **options):
    mode_step = step if mode_step is None else mode_step
    record = Record(name, step, 1.7e9, Mode.TRAIN, mode_step, value)
    return encode_record(record, **options)


def _pattern(frame):
    record = decode_record(frame)
    return Pattern.of(memoryview(frame), record.step, record.value)


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("step", [0, 1, 127, 128, 10**12])
def test_the_next_record_is_recognised(value, step):
    pattern = _pattern(_frame(value, step, mode_step=7))
    other = value + value.dtype.type(1)
    later = {0: 0, 127: 126}.get(step, step + 1)
    behind = b"x" * 5 + _frame(other, later, mode_step=8) + b"y"
    length = len(behind) - 6
    for data in (behind, memoryview(behind)):
        read = pattern.read(data, 5, length, later)
        assert (read.dtype, read.shape) == (value.dtype, value.shape)
        np.testing.assert_array_equal(read, other)


@pytest.mark.parametrize(
    "frame",
    [
        _frame(np.array(["a", "b"])),
        _frame(np.empty((0, 3), np.float32)),
        _frame(np.arange(3.0), checksum=True),
        encode_record(Record("x", 3, 0.0, Mode.TRAIN, 3, np.arange(3.0))),  # without a time
    ],
    ids=["text", "empty", "checksum", "no time"],
)
def test_what_is_left_to_the_parser(frame):
    assert _pattern(frame) is None


@pytest.mark.parametrize(
    "frame",
    [
        _frame(np.arange(3.0), step=301),
        _frame(np.arange(3.0), name="fc/wEight"),
        _frame(np.arange(3)),
        _frame(np.arange(3.0), checksum=True),
        _frame(np.arange(3.0).reshape(3, 1), name="fc"),
    ],
    ids=["step", "name", "dtype", "checksum", "shape"],
)
def test_other_records_are_not_recognised(frame):
    good = _frame(np.arange(3.0))
    assert _pattern(good).read(good, 0, len(good), 300) is not None
    assert _pattern(good).read(frame, 0, len(good), 300) is None


@given(st.data())
def test_what_the_parser_refuses_is_not_recognised(data):
    """Whatever byte is wrong: only the labels behind the content are not looked at."""
    frame = bytearray(_frame(np.arange(4, dtype=np.float32)))
    pattern = _pattern(bytes(frame))
    labels = range(frame.index(b"\x0a\x09mode_step") - 4, len(frame) - 4)
    at = data.draw(st.sampled_from([n for n in range(len(frame)) if n not in labels]))
    frame[at] ^= data.draw(st.integers(1, 255))
    read = pattern.read(bytes(frame), 0, len(frame), 300)
    try:
        record = decode_record(bytes(frame))
    except Unreadable:
        assert read is None
        return
    if read is None:
        assert (record.name, record.step) != ("fc/weight", 300) or at > 12
    else:
        np.testing.assert_array_equal(read, record.value)
