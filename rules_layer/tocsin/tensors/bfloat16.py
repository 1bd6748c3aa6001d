"""bfloat16, which numpy lacks: its bits are stored as uint16 and named in the index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BFLOAT16 = "bfloat16"


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is that of the package ml_dtypes, which JAX and TensorFlow use."""
    return dtype.kind == "V" and dtype.name == BFLOAT16


def from_bfloat16(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Return the numbers whose bfloat16 bits these are (uint16, or ml_dtypes' own), without
    loss."""
    wide = bits.view(np.uint16).astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def to_bfloat16(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of numbers that came from bfloat16; of others the fraction is cut short."""
    bits = np.asarray(numbers, np.float32).view(np.uint32) >> np.uint32(16)
    return np.asarray(bits).astype(np.uint16)
