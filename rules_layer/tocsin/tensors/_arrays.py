"""Arrays between memory and content bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tocsin.tensors._dtypes import is_text

_MAX_PADDED = 64 * 1024 * 1024


def as_array(value: ArrayLike) -> NDArray[Any]:
    """``value`` as it is stored: a Python or numpy scalar becomes an array of one element."""
    array = np.asarray(value)
    return array.reshape(1) if np.isscalar(value) else array


def content_bytes(value: NDArray[Any]) -> memoryview:
    """The little-endian C-order bytes of numbers; copied only where they do not lie so already.

    Strings have no content bytes: theirs are the UTF-8 of the JSON list of the elements.
    """
    if is_text(value.dtype):
        return memoryview(json.dumps(texts(value), ensure_ascii=False).encode())
    if not value.size:
        return memoryview(b"")
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def texts(value: NDArray[Any]) -> list[str]:
    """The elements of an array of strings, flattened. Raises ValueError for other objects."""
    elements = [e.decode() if isinstance(e, bytes) else e for e in value.reshape(-1).tolist()]
    for element in elements:
        if not isinstance(element, str):
            raise ValueError(f"{type(element).__name__} objects cannot be written")
    return elements


def text_array(strings: Sequence[str]) -> NDArray[Any]:
    """Strings as numpy's fixed-width type; as objects where that would distort or bloat them."""
    longest = max(map(len, strings), default=0)
    padded = longest * len(strings) * 4
    if padded > _MAX_PADDED or any(string.endswith("\0") for string in strings):
        array = np.empty(len(strings), dtype=object)
        array[:] = strings
        return array
    return np.array(strings, dtype=f"<U{max(longest, 1)}")
