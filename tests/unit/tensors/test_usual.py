"""What is recognised by comparing bytes is what the parser reads; anything else is left to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import Mode
from tocsin.tensors import Record, Unreadable, decode_record, encode_record, frames
from tocsin.tensors._encoding import labels, step_field
from tocsin.tensors._usual import Usual

USUAL = Usual(step_field(7), labels(Mode.TRAIN, 5))
_values = hnp.arrays(
    st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8", "?", "c8", "c16"]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)


def _record(value, name="w", step=7, time=1.5, mode=Mode.TRAIN, mode_step=5):
    return encode_record(Record(name, step, time, mode, mode_step, np.asarray(value)))


@given(_values, st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_our_records_are_recognised(value, name):
    data = b"before" + _record(value, name) + b"behind"
    time, found = USUAL.read(data, 6, len(data) - 12, name)
    assert time == 1.5
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert found.tobytes() == value.tobytes()


def test_smdebugs_records_are_recognised(sample):
    numbers = [record for record in sample.records if "string_val" not in record]
    for truth in numbers:
        frame = next(
            frame
            for frame in frames((sample.path / truth["file"]).read_bytes())
            if decode_record(frame).name == truth["tag"]
        )
        record = decode_record(frame)
        usual = Usual(step_field(record.step), labels(record.mode, record.mode_step))
        time, value = usual.read(bytes(frame), 0, len(frame), record.name)
        assert time == record.wall_time
        assert value.tobytes() == record.value.tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(15),
        bytes(200),
        _record([1.0], name="v"),
        _record([1.0], step=8),
        _record([1.0], time=0.0),
        _record([1.0], mode=Mode.EVAL),
        _record([1.0], mode_step=6),
        _record(["text"]),
        _record(np.zeros((1,) * 32), name="w" * 200),  # its shape names the tensor 32 times
        encode_record(Record("w", 7, 1.5, Mode.TRAIN, 5, np.zeros(2)), checksum=True),
    ],
)
def test_the_rest_is_left_to_the_parser(data):
    assert USUAL.read(data, 0, len(data), "w") is None
    assert USUAL.read(data, 0, len(data), "w" * 200) is None


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte(position, flip):
    """It is left to the parser, or read as the parser reads it."""
    data = bytearray(_record(np.arange(6, dtype=np.float32).reshape(2, 3)))
    data[position % len(data)] ^= flip
    found = USUAL.read(bytes(data), 0, len(data), "w")
    if found is not None:
        try:
            expected = decode_record(bytes(data)).value
        except Unreadable:
            # lengths of inner messages say nothing that the outer ones do not
            expected = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(found[1], expected)


@given(st.integers(0, 120), st.integers(0, 130))
def test_any_part_of_a_record(start, length):
    data = _record(np.arange(6, dtype=np.float32))
    if (start, length) != (0, len(data)) and start + length <= len(data):
        assert USUAL.read(data, start, length, "w") is None
