from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.tensors._crc32c import crc32c, mask


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
