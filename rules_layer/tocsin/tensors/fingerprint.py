"""128 bits by which a tensor is compared with an earlier one."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FINGERPRINT_SMALL = 4096
"""Bytes that are hashed as they are: BLAKE2 takes them as fast as anything else does."""

_WORDS = 1 << 14  # of 64 bits, in a block that stays in the processor's cache


def fingerprint(content: memoryview) -> str:
    """32 hexadecimal digits that are equal for equal bytes.

    Contents that differ have the same digits by a chance of less than one in 10⁹, whatever the
    difference: enough to say that a tensor did not change, but not a defence against forgery.

    Cryptographic hashes read 1 GB/s, a tenth of what memory gives. So large contents are first
    reduced, block by block, to sums of their 64-bit words times pseudo-random weights. Words are
    summed as they are and, as high bits count little in such a sum, shifted down by 32 too.
    """
    if len(content) <= FINGERPRINT_SMALL:
        return hashlib.blake2b(content, digest_size=16).hexdigest()
    whole = len(content) & ~7
    sums = _sums(np.frombuffer(content[:whole], "<u8"))
    return fingerprint_of_sums(sums, len(content), content[whole:])


def fingerprint_of_sums(sums: bytes, size: int, rest: bytes | memoryview) -> str:
    """Return the fingerprint of a large content whose ``sums`` were computed elsewhere, as on a
    GPU.

    They are two little-endian words for every block of as many words as there are weights; in the
    last block words may be missing. ``rest`` are the bytes after the last whole word.
    """
    digest = hashlib.blake2b(sums, digest_size=16)
    digest.update(size.to_bytes(8, "little"))
    digest.update(rest)
    return digest.hexdigest()


def _sums(words: NDArray[np.uint64]) -> bytes:
    """Two weighted sums of every block."""
    forth, back = fingerprint_weights()
    shifted = np.empty(_WORDS, np.uint64)
    sums = []
    for start in range(0, len(words), _WORDS):
        block = words[start : start + _WORDS]
        high = np.right_shift(block, 32, out=shifted[: len(block)])
        sums += [np.dot(block, forth[: len(block)]), np.dot(high, back[: len(block)])]
    return np.array(sums, "<u8").tobytes()


@lru_cache(maxsize=1)
def fingerprint_weights() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Weights for whole words and for words shifted down; the same on every machine.

    It is the sequence of SplitMix64, whose bits pass for random.
    """
    weights = np.arange(1, 2 * _WORDS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    weights = (weights ^ (weights >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    weights = (weights ^ (weights >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    weights ^= weights >> np.uint64(31)
    return weights[:_WORDS], weights[_WORDS:]
