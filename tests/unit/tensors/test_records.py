"""A record is recognised by one that was parsed; anything else is left to the parser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.model import Mode
from tocsin.tensors import Record, Unreadable, decode_record, encode_record, frames, records
from tocsin.tensors.records import Pattern, RecordReader

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
        _frame(np.zeros((1,) * 32), name="w" * 300),  # its shape names the tensor 32 times
    ],
    ids=["text", "empty", "checksum", "no time", "long"],
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


def test_smdebugs_records_are_recognised(sample):
    for file in dict.fromkeys(truth["file"] for truth in sample.records):
        for frame in frames((sample.path / file).read_bytes()):
            record = decode_record(frame)
            if record.value.size and record.value.dtype.kind in "biufc":
                pattern = Pattern.of(frame, record.step, record.value)
                read = pattern.read(frame, 0, len(frame), record.step)
                assert read.tobytes() == record.value.tobytes()


def test_a_reader_parses_the_first_record_of_a_tensor_only(monkeypatch):
    reader, parsed = RecordReader(), []
    original = records.decode_record
    monkeypatch.setattr(records, "decode_record", lambda f: parsed.append(f) or original(f))
    for step in range(100, 110):
        for name in ("a", "b"):
            frame = _frame(np.full(3, step), step, name)
            expected = 0 if step == 100 else frame.index(np.full(3, step).tobytes())
            assert reader.offset(name, len(frame)) == expected
            assert reader.read(frame, 0, len(frame), name, step).tolist() == [step] * 3
    assert len(parsed) == 2
    with pytest.raises(Unreadable, match="index names another tensor: 'b' of step 109 is there"):
        reader.read(frame, 0, len(frame), "b", 110)


def test_patterns_are_bounded(monkeypatch):
    monkeypatch.setattr(records, "_MOST", 2)
    reader = RecordReader()
    for name in "abcde":
        frame = _frame(np.arange(3), name=name)
        assert reader.read(frame, 0, len(frame), name, 300).tolist() == [0, 1, 2]
        assert len(reader._patterns) <= 2
