"""One tensor as it was at the moment of saving."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from tocsin.model import TensorSummary
from tocsin.tensors import (
    BFLOAT16,
    Captured,
    detailed,
    reduced,
    reduction_name,
    summarize,
    to_bfloat16,
)

from tocsin_hooks.memory import MOST_SAMPLED, Update
from tocsin_hooks.plan import CapturePlan, Saved, Wish

_MAX_NAME = 4096
_MAX_KIND = 128


Since = Callable[[NDArray[Any], "str | None"], Update]
"""Gives the change of a tensor since its last save, for the tensor and its fingerprint."""


def capture(plan: CapturePlan, value: object, since: Since | None = None) -> list[Captured]:
    """Return a tensor as ``plan`` has it: its summary, its values if they are kept, and its
    reductions.

    Nothing of the caller's memory is referred to afterwards. Raises TypeError or ValueError for
    what is not an array of numbers or strings.
    """
    saved = plan.saved
    check_name(saved)
    array = as_array(value)
    bits = _dtype_name(getattr(value, "dtype", "")).rpartition(".")[2] == BFLOAT16
    kept = plan.keeps(array.size, array.nbytes)
    role, kind = saved.place
    now = time.time()
    captured = Captured(
        saved.name,
        value=(to_bfloat16(array) if bits else np.array(array, order="C")) if kept else None,
        shape=array.shape,
        dtype=BFLOAT16 if bits else _dtype_name(array.dtype),
        role=role,
        kind=kind,
        summary=summary_of(array, plan.wish, since),
        wall_time=now,
        list_shape=plan.shape,
        shard=saved.shard,
        contract=saved.contract,
    )
    return [captured, *_reductions(plan, array, now)]


def check_name(saved: Saved) -> None:
    """Raises ValueError for a name or kind that no reader accepts."""
    if not 0 < len(saved.name) <= _MAX_NAME or len(saved.kind or "") > _MAX_KIND:
        raise ValueError("name must have 1 to 4096 characters, kind at most 128")
    f"{saved.name}{saved.kind}".encode()  # half a surrogate pair is a ValueError


def summary_of(array: NDArray[Any], wish: Wish, since: Since | None = None) -> TensorSummary:
    """Return the summary that is wished for; an update needs to know ``since`` when.

    Of details that cannot stand side by side in one summary the first has its place."""
    sampled = wish.update and array.size > MOST_SAMPLED
    summary = summarize(array, fingerprint=wish.fingerprint or sampled or array.size == 1)
    if wish.update and since is not None:
        l1, l2 = since(array, summary.fingerprint)
        summary = msgspec.structs.replace(summary, update_l1=l1, update_l2=l2)
    for detail in wish.details:
        found = msgspec.structs.asdict(detailed(array, detail))
        known = {name: value for name, value in found.items() if value is not None}
        if all(getattr(summary, name) is None for name in known):
            summary = msgspec.structs.replace(summary, **known)
    return summary


@lru_cache(256)  # each length of texts is a type of its own
def _dtype_name(dtype: Hashable) -> str:
    return str(dtype)  # of numpy, and of each framework: it takes long to ask


def _reductions(plan: CapturePlan, array: NDArray[Any], now: float) -> Iterator[Captured]:
    """The reductions that exist: a text has no mean, and complex numbers have no minimum."""
    for each in plan.reductions:
        if len(reduction_name(each, plan.saved.name)) > _MAX_NAME:
            continue
        with suppress(ValueError):
            yield _reduction(array, each, plan.saved.name, now)


def _reduction(array: NDArray[Any], reduction: str, name: str, now: float) -> Captured:
    """One number about a tensor, in its own type if that is a float."""
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float32)
    with np.errstate(over="ignore"):  # a product is soon beyond its type, and then infinite
        value = np.asarray(reduced(array, reduction), dtype)
    return Captured(reduction_name(reduction, name), value=value, wall_time=now)


def is_single(value: object) -> bool:
    """Return whether a value is a single number, found out without waiting for its device."""
    return bool(np.isscalar(value)) or math.prod(getattr(value, "shape", (0,))) == 1


def as_array(value: object) -> NDArray[Any]:
    """``value`` as an array, without a copy where it is one already.

    Takes numbers, strings and lists of them, whatever has ``__array__``, and tensors of PyTorch
    and MXNet on any device. Numbers become shape (1,). Types that numpy or the run format lack
    (bfloat16 and other short floats, long double) are widened or narrowed to one that they have.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "asnumpy"):  # MXNet
        array = value.asnumpy()
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
    if dtype.kind == "U":
        np.char.encode(array, "utf-8")  # half a surrogate pair is a ValueError
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _from_torch(tensor: Any) -> NDArray[Any]:
    tensor = tensor.detach().cpu()
    try:
        array: NDArray[Any] = tensor.numpy()
    except TypeError:  # bfloat16, which numpy does not have
        array = tensor.float().numpy()
    return array
