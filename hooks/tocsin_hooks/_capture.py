"""One tensor as it was at the moment of saving."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tocsin.model import Detail, TensorSummary
from tocsin.tensors import BFLOAT16, Captured, detailed, summarize, to_bfloat16

from tocsin_hooks._wishes import Saved, Wish

_SCALAR = frozenset({"losses", "metrics", "sm_metrics"})
Exchange = Callable[[NDArray[Any]], NDArray[Any] | None]

_NONE = Wish()
_MOST_WANTED = 1 << 20  # bytes of a tensor that is kept whole because a rule wants its values
_MAX_NAME = 4096
_MAX_KIND = 128


def capture(
    saved: Saved,
    value: object,
    *,
    raw: bool | None = False,
    wish: Wish = _NONE,
    exchange: Exchange | None = None,
) -> Captured:
    """Reduce ``value`` to its summary, and copy it if it is small or wanted ``raw``.

    The summary has what rules ``wish`` for; an update is against the value of the last save, for
    which ``exchange`` takes this one. With ``raw`` None it is for the rules to want the values.
    Nothing of the caller's memory is referred to afterwards. Raises TypeError or ValueError for
    what is no array of numbers or strings.
    """
    name = saved.name
    if not 0 < len(name) <= _MAX_NAME or len(saved.kind or "") > _MAX_KIND:
        raise ValueError("name must have 1 to 4096 characters, kind at most 128")
    array = as_array(value)
    bits = str(getattr(value, "dtype", "")).rpartition(".")[2] == BFLOAT16
    wanted = wish.values and array.nbytes <= _MOST_WANTED if raw is None else raw
    keep = wanted or array.size == 1 or not _SCALAR.isdisjoint(saved.collections)
    previous = exchange(array) if wish.update and exchange is not None else None
    return Captured(
        name,
        value=(to_bfloat16(array) if bits else np.array(array, order="C")) if keep else None,
        shape=array.shape,
        dtype=BFLOAT16 if bits else str(array.dtype),
        role=saved.place[0],
        kind=saved.place[1],
        summary=_summary(array, previous, wish.details),
        wall_time=time.time(),
    )


def _summary(
    array: NDArray[Any], previous: NDArray[Any] | None, details: tuple[Detail, ...]
) -> TensorSummary:
    """Of details that cannot stand side by side in one summary the first has its place."""
    summary = summarize(array, previous)
    for detail in details:
        found = msgspec.structs.asdict(detailed(array, detail))
        known = {key: value for key, value in found.items() if value is not None}
        if all(getattr(summary, key) is None for key in known):
            summary = msgspec.structs.replace(summary, **known)
    return summary


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
