"""The number types that an event file can carry."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tocsin.tensors.bfloat16 import BFLOAT16

STRING_CODES = (0, 7)  # smdebug leaves the type of strings unset

# TensorProto.dtype -> content as numpy reads it; TensorFlow's quantised types are plain integers
_CONTENT = {
    1: "<f4",
    2: "<f8",
    3: "<i4",
    4: "|u1",
    5: "<i2",
    6: "|i1",
    8: "<c8",
    9: "<i8",
    10: "|b1",
    11: "|i1",
    12: "|u1",
    15: "<i2",
    17: "<u2",
    18: "<c16",
    19: "<f2",
    22: "<u4",
    23: "<u8",
}
_DTYPES: dict[int, np.dtype[Any]] = {code: np.dtype(text) for code, text in _CONTENT.items()}
_CODES = {dtype: code for code, dtype in reversed(_DTYPES.items())}
_SIZES = {BFLOAT16: 2} | {dtype.name: dtype.itemsize for dtype in _CODES}


def dtype_of(code: int) -> np.dtype[Any]:
    """Return the little-endian dtype of a code in an event file. Raises ValueError."""
    try:
        return _DTYPES[code]
    except KeyError:
        raise ValueError(f"dtype code {code} cannot be read") from None


@lru_cache
def code_of(dtype: np.dtype[Any]) -> int:
    """Return the code that an event file uses for a dtype of any byte order. Raises ValueError."""
    try:
        return _CODES[dtype.newbyteorder("<")]
    except KeyError:
        raise ValueError(f"dtype {dtype} cannot be written") from None


def is_text(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are strings, which have no content bytes of their own."""
    return dtype.kind in "USO"


def itemsize(name: str) -> int | None:
    """Bytes per element of a dtype given by name (``float32``); None for strings and unknown."""
    return _SIZES.get(name)
