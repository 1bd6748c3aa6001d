from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tocsin.tensors.fingerprint import fingerprint

LARGE = 300_000  # bytes: several blocks and a part of one


def _content(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 4096, 4097, 4104, 131072, LARGE, LARGE + 3])
def test_equal_contents_have_equal_fingerprints(size):
    content = _content(size)
    assert len(fingerprint(content.data)) == 32
    assert fingerprint(content.data) == fingerprint(bytes(content.tobytes()))


def _by_the_formula(content):
    """The same in Python's integers, which know no machine."""
    words, weights = 1 << 14, []
    for number in range(1, 2 * words + 1):  # SplitMix64
        mixed = number * 0x9E3779B97F4A7C15 % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        weights.append(mixed ^ mixed >> 31)
    sums = b""
    whole = len(content) // 8 * 8
    for start in range(0, whole, 8 * words):
        block = content[start : min(start + 8 * words, whole)]
        numbers = [int.from_bytes(block[at : at + 8], "little") for at in range(0, len(block), 8)]
        forth = sum(n * w for n, w in zip(numbers, weights, strict=False))
        back = sum((n >> 32) * w for n, w in zip(numbers, weights[words:], strict=False))
        sums += (forth % 2**64).to_bytes(8, "little") + (back % 2**64).to_bytes(8, "little")
    message = sums + len(content).to_bytes(8, "little") + content[whole:]
    return hashlib.blake2b(message, digest_size=16).hexdigest()


def test_it_is_the_same_on_every_machine():
    """A hook's fingerprint is compared with those of other machines, and of later versions."""
    small, large = b"tocsin", _content(LARGE + 5).tobytes()
    assert fingerprint(small) == hashlib.blake2b(small, digest_size=16).hexdigest()
    assert fingerprint(large) == _by_the_formula(large)


@given(st.integers(0, 8 * LARGE - 1))
def test_every_bit_counts(bit):
    content = _content(LARGE)
    before = fingerprint(content.data)
    content[bit // 8] ^= 1 << bit % 8
    assert fingerprint(content.data) != before


@pytest.mark.parametrize("size", [4097, LARGE])
def test_the_length_counts(size):
    zeros = bytes(size)
    assert len({fingerprint(zeros), fingerprint(zeros + b"\0"), fingerprint(zeros[:-1])}) == 3


@given(st.lists(st.integers(0, 49_999), min_size=1, max_size=40, unique=True))
def test_changed_signs_do_not_cancel_out(places):
    """All differences are in the highest bits then."""
    signs = np.ones(50_000, np.float32)
    before = fingerprint(signs.view(np.uint8).data)
    signs[places] = -1
    assert fingerprint(signs.view(np.uint8).data) != before


@given(st.integers(0, 49_999), st.integers(0, 49_999))
def test_exchanged_elements_are_seen(first, second):
    values = np.arange(50_000, dtype=np.float32)
    before = fingerprint(values.view(np.uint8).data)
    values[[first, second]] = values[[second, first]]
    assert (fingerprint(values.view(np.uint8).data) == before) == (first == second)


def test_no_two_of_many_are_equal():
    """Steps of a training that changes very little."""
    values = np.ones(5000, np.float32)
    seen = set()
    for step in range(2000):
        values[step] = np.nextafter(values[step], np.float32(2))
        seen.add(fingerprint(values.view(np.uint8).data))
    assert len(seen) == 2000
