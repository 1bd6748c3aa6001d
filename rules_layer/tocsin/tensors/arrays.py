"""Arrays between memory and content bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tocsin.tensors.bfloat16 import is_bfloat16
from tocsin.tensors.dtypes import is_text

_LITTLE = "|<=" if sys.byteorder == "little" else "|<"
_SMALL = 256  # bytes that are copied sooner than looked at
_SMALL_TEXT = 1 << 14  # characters that may be padded to whatever they are
_PADDING = 8  # times the characters there are, and no more, for larger ones


def as_array(value: ArrayLike) -> NDArray[Any]:
    """``value`` as it is stored: a Python or numpy scalar becomes an array of one element."""
    if type(value) is np.ndarray:
        return value
    array = np.asarray(value)
    return array.reshape(1) if np.isscalar(value) else array


def content_bytes(value: NDArray[Any]) -> memoryview:
    """Return the little-endian C-order bytes of numbers; copied only where they are not so already.

    Strings have no content bytes: theirs are the UTF-8 of the JSON list of the elements.
    """
    if is_text(value.dtype):
        return memoryview(json.dumps(texts(value), ensure_ascii=False).encode())
    if is_bfloat16(value.dtype):
        value = value.view(np.uint16)
    if value.nbytes <= _SMALL and value.dtype.byteorder in _LITTLE:
        return memoryview(value.tobytes())
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def texts(value: NDArray[Any]) -> list[str]:
    """Return the elements of an array of strings, flattened. Raises ValueError for other
    objects."""
    elements = [e.decode() if isinstance(e, bytes) else e for e in value.reshape(-1).tolist()]
    for element in elements:
        if not isinstance(element, str):
            raise ValueError(f"{type(element).__name__} objects cannot be written")
    return elements


def text_array(strings: Sequence[str]) -> NDArray[Any]:
    """Strings as numpy's fixed-width type; as objects where that would distort or bloat them."""
    longest = max(map(len, strings), default=0)
    padded = longest * len(strings)
    bloated = padded > max(_SMALL_TEXT, _PADDING * sum(map(len, strings)))
    if bloated or any(string.endswith("\0") for string in strings):
        array = np.empty(len(strings), dtype=object)
        array[:] = strings
        return array
    return np.array(strings, dtype=f"<U{max(longest, 1)}")
