from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.tensors.crc32c import _bytewise, crc32c, mask


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # these three are from RFC 3720
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_known_values(data, crc):
    assert crc32c(data) == crc
    assert crc32c(memoryview(data)) == crc


def test_smdebugs_constant():
    assert mask(crc32c(b"0x12345678")) == 0x062DC0B3


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_parts_make_the_whole(first, second):
    assert crc32c(second, crc32c(first)) == crc32c(first + second)


_SIZES = [1023, 1024, 1025, 1027, 8191, 8192, 8193, 8196, 16384, 40_001]


@pytest.mark.parametrize("size", _SIZES)
def test_long_data_is_folded_to_the_same(size):
    """Rows are of 8192 bytes, and shorter data than 1024 go byte by byte."""
    data = random.Random(size).randbytes(size)
    expected = _bytewise(data, 0xFFFFFFFF) ^ 0xFFFFFFFF
    assert crc32c(data) == expected
    assert crc32c(data[5:], crc32c(data[:5])) == expected
    assert crc32c(memoryview(bytearray(b"x" + data))[1:]) == expected  # not aligned


@given(st.integers(0, 8 * 20_000 - 1))
def test_every_bit_counts(bit):
    data = bytearray(20_000)
    before = crc32c(data)
    data[bit // 8] ^= 1 << bit % 8
    assert crc32c(data) != before
