from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tocsin.model import Mode
from tocsin.tensors import Record, Unreadable, as_array, decode_record, encode_record, frames
from tocsin.tensors.crc32c import crc32c, mask

GOLDEN = bytes.fromhex(
    "520000000000000025eb07b70900001040fc54d9412a470a450a0372617742210801120b1209080412057261775f34"
    "2210000000000000803f00000040000040404a1b0a0e0a096d6f64655f737465701201300a090a046d6f6465120131"
    "b3c02d06"
)
DTYPES = [
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def _record(value, name="t", step=3, mode=Mode.EVAL, mode_step=1):
    return Record(name, step, 1.5, mode, mode_step, value)


def _framed(payload):
    head = struct.pack("<Q", len(payload))
    return head + struct.pack("<I", mask(crc32c(head))) + payload + struct.pack("<I", 0x062DC0B3)


def _payload(tensor, name=b"t"):
    """An event around hand-made bytes of a TensorProto (all lengths below 128)."""
    value = b"\x0a" + bytes([len(name)]) + name + b"\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    return b"\x2a" + bytes([len(summary)]) + summary


def test_the_golden_record():
    value = np.arange(4, dtype=np.float32)
    record = Record("raw", 0, 1700000000.25, Mode.TRAIN, 0, value)
    assert encode_record(record) == GOLDEN
    decoded = decode_record(GOLDEN)
    assert (decoded.name, decoded.step, decoded.mode_step) == ("raw", 0, 0)
    assert (decoded.mode, decoded.wall_time) == (Mode.TRAIN, 1700000000.25)
    np.testing.assert_array_equal(decoded.value, value)


_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
_arrays = hnp.arrays(
    st.sampled_from(DTYPES).map(np.dtype),
    hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4),
)
_steps = st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1))


@given(_names, _arrays, st.sampled_from(Mode), _steps, _steps, st.floats(0, 1e12), st.booleans())
def test_round_trip(name, value, mode, step, mode_step, wall_time, checksum):
    record = Record(name, step, wall_time, mode, mode_step, value)
    decoded = decode_record(encode_record(record, checksum=checksum))
    assert (decoded.name, decoded.step, decoded.wall_time) == (name, step, wall_time)
    assert (decoded.mode, decoded.mode_step) == (mode, mode_step)
    assert decoded.value.dtype == value.dtype
    assert decoded.value.shape == value.shape
    assert decoded.value.tobytes() == value.tobytes()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8))
def test_strings_round_trip(strings):
    value = np.array(strings, dtype=object)
    decoded = decode_record(encode_record(_record(value)))
    assert decoded.value.shape == (len(strings),)
    assert decoded.value.tolist() == strings


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    for frame in (data, _framed(data), _framed(_payload(data[:40]))):
        with contextlib.suppress(Unreadable):
            decode_record(frame)


@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_a_flipped_byte_never_crashes(position, flip):
    damaged = bytearray(GOLDEN)
    damaged[position] ^= flip
    try:
        decode_record(damaged)
    except Unreadable:
        return
    assert 12 <= position < len(GOLDEN) - 4  # the constant at the end guards no payload


@pytest.mark.parametrize("position", range(0, len(GOLDEN) + 3, 7))
def test_a_true_checksum_finds_every_damage(position):
    frame = bytearray(encode_record(decode_record(GOLDEN), checksum=True))
    frame[position % len(frame)] ^= 0x10
    with pytest.raises(Unreadable):
        decode_record(frame)


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (7, "int64", (1,)),
        (0.5, "float64", (1,)),
        (True, "bool", (1,)),
        ("hello", "<U5", (1,)),
        (np.float32(2), "float32", (1,)),
        (np.array(2, np.float32), "float32", ()),
        ([1, 2, 3], "int64", (3,)),
        ((1.0, 2.0), "float64", (2,)),
        ([], "float64", (0,)),
    ],
)
def test_what_python_values_become(value, dtype, shape):
    array = as_array(value)
    assert (array.dtype, array.shape) == (np.dtype(dtype), shape)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.arange(12, dtype=np.int16)[::2],
        np.arange(4, dtype=">f8"),
        np.asfortranarray(np.ones((2, 3), np.complex64)),
    ],
    ids=["transposed", "strided", "big-endian", "fortran"],
)
def test_memory_order_does_not_matter(value):
    decoded = decode_record(encode_record(_record(value))).value
    np.testing.assert_array_equal(decoded, value)
    assert decoded.dtype.byteorder in "=<|"


@pytest.mark.parametrize(
    "value",
    [
        np.array(["2020-01-01"], "M8[D]"),
        np.zeros(1, [("a", "i4")]),
        np.array([object()]),
        np.array(["a", None], object),
        np.zeros(1, np.longdouble),
    ],
    ids=["datetime", "structured", "object", "mixed", "longdouble"],
)
def test_types_that_the_format_cannot_carry(value):
    with pytest.raises(ValueError, match="cannot be written"):
        encode_record(_record(value))


@pytest.mark.parametrize("name", ["", "n" * 5000])
def test_names_have_a_length(name):
    with pytest.raises(ValueError, match="name"):
        encode_record(_record(np.zeros(1), name))


def _dimensions(*sizes):
    shape = b""
    for size in sizes:
        dimension = b"\x08" + size
        shape += b"\x12" + bytes([len(dimension)]) + dimension
    return b"\x12" + bytes([len(shape)]) + shape


HUGE = b"\xff" * 8 + b"\x7f"  # 2**63 - 1
NEGATIVE = b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (b"\x08\x01" + _dimensions(b"\x04") + b"\x22\x04abcd", "does not fit 4 bytes"),
        (b"\x08\x01" + _dimensions(HUGE, HUGE) + b"\x22\x04abcd", "does not fit 4 bytes"),
        (b"\x08\x01" + _dimensions(b"\x00", HUGE, HUGE), "damaged"),
        (b"\x08\x01" + _dimensions(NEGATIVE), "negative"),
        (b"\x08\x01" + b"\x22\x08abcdefgh", "does not fit 8 bytes"),
        (b"\x08\x0e" + _dimensions(b"\x02") + b"\x22\x04abcd", "dtype code 14"),
        (b"\x08" + NEGATIVE + b"\x22\x04abcd", "dtype code"),
        (_dimensions(b"\x02") + b"\x42\x01a", "does not fit 1 strings"),
        (_dimensions(b"\x01") + b"\x42\x01\xff", "damaged"),
        (b"\x08\x01" + b"\x12\x42" + b"\x12\x00" * 33, "dimensions"),
        (b"\x08\x01\x22\x7fabc", "longer than its message"),
        (b"\x0b", "wire type"),
        (b"\x08" + b"\xff" * 12, "varint"),
        (b"\x0a\x01a", "not the integer"),
        (b"\x20\x01", "not the message"),
    ],
)
def test_claims_are_checked_before_memory_is_taken(tensor, reason):
    with pytest.raises(Unreadable, match=reason):
        decode_record(_framed(_payload(tensor)))


def test_unknown_fields_are_passed_over():
    tensor = b"\x08\x03\x18\x07\x15\x00\x00\x00\x00" + _dimensions(b"\x01") + b"\x22\x04\x05\0\0\0"
    record = decode_record(_framed(_payload(tensor)))
    assert record.value.tolist() == [5]
    assert (record.mode, record.step, record.mode_step) == (Mode.GLOBAL, 0, 0)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "one tensor"),
        (b"\x09" + bytes(8), "one tensor"),
        (b"\x2a\x00", "one tensor"),
        (b"\x2a\x03\x0a\x01t", "wire type"),
        (b"\x2a\x05\x0a\x03\x0a\x01t", "one tensor"),
        (b"\x2a\x0a" + b"\x0a\x03\x0a\x01t" * 2, "one tensor"),
        (_payload(b"\x08\x01" + _dimensions(b"\x00"), name=b""), "name"),
        (_payload(b"\x08\x01" + _dimensions(b"\x00"), name=b"\xc3\x28"), "damaged"),
        (b"\x09\x00", "longer than"),
        (b"\x0d\x00\x00\x00\x00", "damaged"),  # a float where the time should be
    ],
)
def test_events_that_hold_no_tensor(payload, reason):
    with pytest.raises(Unreadable, match=reason):
        decode_record(_framed(payload))


def test_length_and_its_checksum():
    damaged = bytearray(GOLDEN)
    damaged[9] ^= 1
    with pytest.raises(Unreadable, match="checksum of the record's length"):
        decode_record(damaged)
    assert decode_record(damaged, check=False).name == "raw"
    with pytest.raises(Unreadable, match="record claims 82 bytes"):
        decode_record(GOLDEN[:-1])
    with pytest.raises(Unreadable, match="too few"):
        decode_record(GOLDEN[:15])


def test_footer():
    with pytest.raises(Unreadable, match="checksum of the record is wrong"):
        decode_record(GOLDEN[:-1] + b"\x07")
    assert decode_record(GOLDEN[:-1] + b"\x07", check=False).name == "raw"


@pytest.mark.parametrize("cut", [1, 15, 16, 50, 97])
def test_a_file_that_breaks_off(cut):
    found = frames(GOLDEN + GOLDEN[:cut])
    assert decode_record(next(found)).name == "raw"
    with pytest.raises(Unreadable, match="is truncated"):
        next(found)


@pytest.mark.parametrize(("longest", "others"), [(100_000, 1000), (16_000, 1000), (50_000, 20)])
def test_strings_of_very_different_lengths_are_not_padded(longest, others):
    value = np.array(["x" * longest] + [""] * others, dtype=object)
    decoded = decode_record(encode_record(_record(value))).value
    assert decoded.dtype == object
    assert decoded.tolist() == value.tolist()


def test_a_mode_that_has_had_no_step_yet() -> None:
    """smdebug writes a number that is saved between training and evaluation so."""
    record = decode_record(encode_record(_record(np.float64(0.4), mode=Mode.EVAL, mode_step=-1)))
    assert (record.mode, record.mode_step, record.value) == (Mode.EVAL, -1, 0.4)
    with pytest.raises(Unreadable):
        decode_record(encode_record(_record(np.float64(0.4), mode_step=-2)))
