"""A tensor reduced to what a rule asks for beyond the plain numbers of a summary."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.model import Bounds, Channels, Detail, TensorSummary
from tocsin.tensors.bfloat16 import from_bfloat16, is_bfloat16

_FIELDS = ("quantiles", "bounds", "units", "inactive_units", "unit_active", "channels")
_MOST_CHANNELS = 4096
_MOST_UNITS = 1 << 16
_MOST_SAMPLED = 1_000_000
_BLOCK = 1 << 15  # elements; their doubles fill a quarter of a MiB

_Floats = NDArray[np.float64]
_Cube = NDArray[Any]  # (before, along, after) an axis
_Interval = tuple[float | None, float | None]


class _Activity(NamedTuple):
    bounds: Bounds | None = None
    units: int | None = None
    inactive: int | None = None
    counts: str | None = None


def detailed(value: NDArray[Any], detail: Detail) -> TensorSummary:
    """Return a summary with the fields that ``detail`` asks for, and no other.

    Compared and accumulated in float64. NaN is neither inside an interval nor below or above it,
    infinities are. One dimension is a single sample of many units, a single number one unit.
    Quantiles interpolate linearly as ``numpy.quantile`` does; those of more than 1,000,000
    elements are taken from an evenly strided sample of at most that many. Left out are: the
    counts of more than 65,536 units, more than 4,096 channels, units or channels along an axis
    that the tensor does not have, quantiles of nothing finite; and all of complex numbers, of
    strings and of empty tensors.
    """
    real = value.dtype.kind in "biuf" or is_bfloat16(value.dtype)
    if not real or not value.size:
        return TensorSummary()
    value = np.atleast_1d(value)
    with np.errstate(all="ignore"):
        quantiles = _quantiles(value, detail.quantiles)
        active = _activity(value, detail.active, detail.unit_axis)
        channels = _channels(value, detail.channel_axis)
    return TensorSummary(
        quantiles=quantiles,
        bounds=active.bounds,
        units=active.units,
        inactive_units=active.inactive,
        unit_active=active.counts,
        channels=channels,
    )


def with_details(summary: TensorSummary, details: TensorSummary) -> TensorSummary:
    """Return the plain numbers of ``summary`` with what ``detailed`` gives; ``details`` may be
    empty."""
    found = {name: getattr(details, name) for name in _FIELDS}
    return msgspec.structs.replace(summary, **found)


def without_details(summary: TensorSummary) -> TensorSummary:
    """Return the plain numbers of ``summary``: what is beyond them can be 100 kB."""
    if all(getattr(summary, name) is None for name in _FIELDS):
        return summary
    return with_details(summary, TensorSummary())


def answers(summary: TensorSummary, detail: Detail) -> bool:
    """Return whether a summary has all that ``detail`` asks for, and so the value is not needed.

    It does not say along which axis its units are: that is taken to be the default one.
    """
    known = summary.quantiles or {}
    return (
        all(str(quantile) in known for quantile in detail.quantiles)
        and (detail.active is None or _answers_activity(summary, detail.active, detail.unit_axis))
        and (detail.channel_axis is None or _answers_channels(summary, detail.channel_axis))
    )


def _answers_activity(summary: TensorSummary, active: _Interval, axis: int | None) -> bool:
    bounds, units = summary.bounds, summary.units
    if bounds is None or (bounds.low, bounds.high) != active:
        return False
    if axis is not None or units is None or summary.inactive_units is None:
        return False
    return summary.unit_active is not None or units > _MOST_UNITS


def _answers_channels(summary: TensorSummary, axis: int) -> bool:
    return summary.channels is not None and summary.channels.axis == axis


def _quantiles(value: NDArray[Any], wanted: tuple[float, ...]) -> dict[str, float] | None:
    if not wanted:
        return None
    flat = value.reshape(-1)
    stride = math.ceil(flat.size / _MOST_SAMPLED)
    while math.gcd(stride, flat.size) > 1:  # else the sample might be a single column
        stride += 1
    sample = _wide(flat[::stride])
    sample = sample[np.isfinite(sample)]
    if not sample.size:
        return None
    found = np.quantile(sample, wanted)
    if not np.isfinite(found).all():  # the distance of two neighbours is beyond a double
        found = np.quantile(sample / 2, wanted) * 2
    return dict(zip(map(str, wanted), found.tolist(), strict=True))


def _activity(value: NDArray[Any], interval: _Interval | None, axis: int | None) -> _Activity:
    if interval is None:
        return _Activity()
    low, high = interval
    if axis is None:
        axis = 1 if value.ndim >= 4 else value.ndim - 1
    cube = _cube(value, axis)
    along = cube is not None
    if cube is None:
        cube = value.reshape(1, 1, -1)
    below = above = 0
    inside = np.zeros(cube.shape[1], np.int64)
    for at, block in _blocks(cube):
        mask = ~np.isnan(block)
        if low is not None:
            under = block <= low
            below += int(np.count_nonzero(under))
            mask &= ~under
        if high is not None:
            over = block >= high
            above += int(np.count_nonzero(over))
            mask &= ~over
        inside[at] += np.count_nonzero(mask, axis=(0, 2))
    bounds = Bounds(low, high, below, above)
    if not along:
        return _Activity(bounds)
    counts = None
    if len(inside) <= _MOST_UNITS:
        packed = np.minimum(inside, np.iinfo(np.uint32).max).astype("<u4").tobytes()
        counts = base64.b64encode(packed).decode()
    return _Activity(bounds, len(inside), int(np.count_nonzero(inside == 0)), counts)


def _channels(value: NDArray[Any], axis: int | None) -> Channels | None:
    cube = None if axis is None else _cube(value, axis)
    if axis is None or cube is None or cube.shape[1] > _MOST_CHANNELS:
        return None
    count = np.zeros(cube.shape[1])
    total, spread = np.zeros_like(count), np.zeros_like(count)
    for at, block in _blocks(cube):
        finite = np.isfinite(block)
        count[at] += np.count_nonzero(finite, axis=(0, 2))
        total[at] += np.sum(block, axis=(0, 2), where=finite)
    mean = total / count
    for at, block in _blocks(cube):
        finite = np.isfinite(block)
        block -= mean[at, np.newaxis]
        np.square(block, out=block)
        spread[at] += np.sum(block, axis=(0, 2), where=finite)
    return Channels(axis, _known(mean), _known(spread / count))


def _known(numbers: _Floats) -> tuple[float | None, ...]:
    return tuple(number if math.isfinite(number) else None for number in numbers.tolist())


def _cube(value: NDArray[Any], axis: int) -> _Cube | None:
    """The value with all axes before ``axis`` as one and all after it, if it has that axis."""
    if not -value.ndim <= axis < value.ndim:
        return None
    axis %= value.ndim
    shape = value.shape
    return value.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _blocks(cube: _Cube) -> Iterator[tuple[slice, _Floats]]:
    """The cube in small pieces as new doubles, each with its place along the middle axis."""
    before, along, after = cube.shape
    deep = min(after, _BLOCK)
    wide = min(along, max(1, _BLOCK // deep))
    high = max(1, _BLOCK // (deep * wide))
    for top in range(0, before, high):
        for left in range(0, along, wide):
            at = slice(left, left + wide)
            for front in range(0, after, deep):
                yield at, _wide(cube[top : top + high, at, front : front + deep])


def _wide(part: NDArray[Any]) -> _Floats:
    return (from_bfloat16(part) if is_bfloat16(part.dtype) else part).astype(np.float64, order="C")
