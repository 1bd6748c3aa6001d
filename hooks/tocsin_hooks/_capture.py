"""One tensor as it was at the moment of saving."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tocsin.model import COLLECTION_ROLES, Role
from tocsin.tensors import BFLOAT16, Captured, summarize, to_bfloat16

_SCALAR = frozenset({"losses", "metrics", "sm_metrics"})
_MAX_NAME = 4096
_MAX_KIND = 128


def capture(
    name: str,
    value: object,
    collections: tuple[str, ...],
    *,
    role: Role | None = None,
    kind: str | None = None,
    raw: bool = False,
) -> Captured:
    """Reduce ``value`` to its summary, and copy it if it is small or wanted ``raw``.

    Nothing of the caller's memory is referred to afterwards. Raises TypeError or ValueError for
    what is no array of numbers or strings.
    """
    if not 0 < len(name) <= _MAX_NAME or len(kind or "") > _MAX_KIND:
        raise ValueError("name must have 1 to 4096 characters, kind at most 128")
    array = as_array(value)
    bits = str(getattr(value, "dtype", "")).rpartition(".")[2] == BFLOAT16
    keep = raw or array.size == 1 or not _SCALAR.isdisjoint(collections)
    return Captured(
        name,
        value=(to_bfloat16(array) if bits else np.array(array, order="C")) if keep else None,
        shape=array.shape,
        dtype=BFLOAT16 if bits else str(array.dtype),
        role=role
        or next((COLLECTION_ROLES[c] for c in collections if c in COLLECTION_ROLES), None),
        kind=kind,
        summary=summarize(array),
        wall_time=time.time(),
    )


def as_array(value: object) -> NDArray[Any]:
    """``value`` as an array, without a copy where it is one already.

    Takes numbers, strings and lists of them, whatever has ``__array__``, and tensors of PyTorch
    on any device. Numbers become shape (1,). Types that numpy or the run format lack (bfloat16 and
    other short floats, long double) are widened or narrowed to one that they have.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "detach"):
        array = _from_torch(value)
    else:
        array = np.asarray(value)
        array = array.reshape(1) if np.isscalar(value) else array
    dtype = array.dtype
    if dtype.kind == "V" and dtype.names is None:  # ml_dtypes' bfloat16 and float8 are such
        return array.astype(np.float32)
    if dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        return array.astype(np.float64 if dtype.kind == "f" else np.complex128)
    if dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    if dtype.kind not in "biufcU":
        raise TypeError(f"values of type {dtype} cannot be captured")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _from_torch(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().cpu()
    try:
        array: NDArray[Any] = tensor.numpy()
    except TypeError:  # bfloat16, which numpy does not have
        array = tensor.float().numpy()
    return array
