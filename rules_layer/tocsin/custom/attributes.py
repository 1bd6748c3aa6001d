"""The attributes that a rule keeps, as JSON and back: plain data and numpy arrays."""

from __future__ import annotations

import base64
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tocsin.model import Mode

MOST_DEPTH = 32
_KIND = "$"  # the key of a value that JSON has no form for
_SIMPLE = (str, bool, type(None))
_DTYPES = "biufc"
_LARGEST = 1 << 63  # beyond, JSON readers disagree


class NotPlain(ValueError):
    """A value that cannot be kept between two steps; the message names its type."""


def encode(value: Any, depth: int = 0) -> Any:
    """``value`` as JSON can carry it. Raises NotPlain."""
    if depth > MOST_DEPTH:
        raise NotPlain(f"{type(value).__name__} nested more than {MOST_DEPTH} deep")
    if isinstance(value, Mode):
        return {_KIND: "mode", "value": value.name}
    if type(value) in _SIMPLE or (type(value) is int and abs(value) < _LARGEST):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_KIND: "float", "value": str(value)}
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value)
    if isinstance(value, dict):
        return _encode_dict(value, depth)
    for kind, of in (("tuple", tuple), ("set", set), ("frozenset", frozenset), ("deque", deque)):
        if type(value) is of:
            return {_KIND: kind, "value": _encode_all(value, depth), **_bound(value)}
    if type(value) is list:
        return _encode_all(value, depth)
    raise NotPlain(type(value).__name__)


def decode(data: Any) -> Any:
    """Reverse ``encode``. Raises ValueError for anything that it never returns."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if _KIND not in data:
        return {key: decode(item) for key, item in data.items()}
    make = _MAKERS.get(data[_KIND])
    if make is None:
        raise ValueError(f"no attribute is of kind {str(data[_KIND])[:40]!r}")
    return make(data)


def restored(data: Any, fresh: Any) -> Any:
    """``data`` decoded, with what only the constructor knows: the factory of a defaultdict."""
    value = decode(data)
    if isinstance(fresh, defaultdict) and isinstance(value, dict):
        return defaultdict(fresh.default_factory, value)
    if isinstance(fresh, dict) and type(value) is dict and type(fresh) is not dict:
        return type(fresh)(value)
    return value


def _encode_dict(value: dict[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value) and _KIND not in value:
        return {key: encode(item, depth + 1) for key, item in value.items()}
    return {_KIND: "dict", "value": [_encode_all(pair, depth) for pair in value.items()]}


def _encode_all(items: Iterable[Any], depth: int) -> list[Any]:
    return [encode(item, depth + 1) for item in items]


def _bound(value: Any) -> dict[str, Any]:
    return {"most": value.maxlen} if isinstance(value, deque) else {}


def _encode_array(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind not in _DTYPES or array.dtype.itemsize > 16:
        raise NotPlain(f"numpy array of dtype {array.dtype}")
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        _KIND: "array" if isinstance(value, np.ndarray) else "scalar",
        "dtype": little.dtype.str,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode(),
    }


def _array(data: Mapping[str, Any]) -> Any:
    dtype, shape = np.dtype(str(data["dtype"])), tuple(map(int, data["shape"]))
    if dtype.kind not in _DTYPES:
        raise ValueError(f"no attribute is of dtype {dtype}")
    content = base64.b64decode(data["base64"], validate=True)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"{len(content)} bytes are not an array of {dtype} with shape {shape}")
    array = np.frombuffer(content, dtype).reshape(shape)
    native = array.astype(dtype.newbyteorder("="))
    return native if data[_KIND] == "array" else native[()]


def _sequence(of: Callable[[list[Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda data: of(decode(data["value"]))


_MAKERS: Mapping[Any, Callable[[Mapping[str, Any]], Any]] = {
    "mode": lambda data: Mode[data["value"]],
    "float": lambda data: float(data["value"]),
    "array": _array,
    "scalar": _array,
    "dict": _sequence(dict),
    "tuple": _sequence(tuple),
    "set": _sequence(set),
    "frozenset": _sequence(frozenset),
    "deque": lambda data: deque(decode(data["value"]), data["most"]),
}
