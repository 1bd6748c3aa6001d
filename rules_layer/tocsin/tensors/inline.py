"""Values in an index file itself: short series, for which an event file would cost more."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors.index import Entry


def encode_inline(value: NDArray[Any]) -> str:
    """Return the values in C order, little-endian, as base64."""
    return base64.b64encode(value.astype(value.dtype.newbyteorder("<")).tobytes()).decode()


def inline_value(entry: Entry) -> NDArray[Any] | None:
    """Return the inline values of an entry; None where it has none, or its shape and type do not
    fit."""
    if entry.inline is None or entry.shape is None or entry.dtype is None:
        return None
    try:
        dtype = np.dtype(entry.dtype).newbyteorder("<")
        data = base64.b64decode(entry.inline, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return None
    if dtype.kind not in "biuf" or len(data) != math.prod(entry.shape) * dtype.itemsize:
        return None
    return np.frombuffer(data, dtype).reshape(entry.shape).astype(dtype.newbyteorder("="))
