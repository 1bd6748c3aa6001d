"""Computes on the device the numbers that rules add to the plain ones of a summary.

The meaning of each is that of ``tocsin.tensors.detailed``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tocsin.model import Bounds, Channels, Detail

from tocsin_hooks.torch.reductions.packing import CHUNK, strided
from tocsin_hooks.torch.reductions.transfer import Box, Parcel

_MOST_CHANNELS = 4096
_MOST_UNITS = 1 << 16
_MOST_SAMPLED = 1_000_000

Fields = dict[str, Any]
_Interval = tuple[float | None, float | None]


def details(tensor: Any, asked: Detail, parcel: Parcel) -> list[Callable[[], Fields]]:
    """Fields of a summary, known when the parcel has arrived.

    The tensor has real elements, at least one of them, and a dimension.
    """
    found = []
    if asked.quantiles:
        found.append(_quantiles(tensor, asked.quantiles, parcel))
    if asked.active is not None:
        found.append(_activity(tensor, asked.active, asked.unit_axis, parcel))
    if asked.channel_axis is not None:
        found.append(_channels(tensor, asked.channel_axis, parcel))
    return found


def _quantiles(tensor: Any, wanted: tuple[float, ...], parcel: Parcel) -> Callable[[], Fields]:
    size = tensor.numel()
    stride = math.ceil(size / _MOST_SAMPLED)
    while math.gcd(stride, size) > 1:
        stride += 1
    inf = math.inf
    ordered = strided(tensor, stride).double().nan_to_num(inf, inf, inf).sort().values
    last = (ordered < inf).sum() - 1
    positions = torch.stack([last.double() * quantile for quantile in wanted])
    below = positions.floor().long().clamp(min=0)
    above = torch.minimum(below + 1, last).clamp(min=0)
    sent = parcel.add(torch.stack([ordered[below], ordered[above]], 1))
    end = parcel.add(last)

    def finish() -> Fields:
        last = int(end.tensor)
        if last < 0:
            return {}
        pairs = zip(wanted, sent.tensor.tolist(), strict=True)
        return {
            "quantiles": {str(q): _between(low, high, q * last % 1) for q, (low, high) in pairs}
        }

    return finish


def _between(low: float, high: float, part: float) -> float:
    """As numpy interpolates; halved where the distance is beyond a double."""
    distance = high - low
    if not math.isfinite(distance):
        return 2 * _between(low / 2, high / 2, part)
    return low + distance * part if part < 0.5 else high - distance * (1 - part)


def _activity(
    tensor: Any, interval: _Interval, unit_axis: int | None, parcel: Parcel
) -> Callable[[], Fields]:
    low, high = interval
    if unit_axis is None:
        unit_axis = 1 if tensor.dim() >= 4 else tensor.dim() - 1
    axis = _axis(tensor, unit_axis)
    units = tensor.shape[axis or 0]
    below, above, inside = _zeros(1, tensor), _zeros(1, tensor), _zeros(units, tensor)
    for at, block in _blocks(tensor, axis or 0):
        within = block == block  # not NaN
        if low is not None:
            under = block <= low
            below += under.sum()
            within &= ~under
        if high is not None:
            over = block >= high
            above += over.sum()
            within &= ~over
        inside[at] += _along(within, axis or 0)
    counted = inside if units <= _MOST_UNITS else inside[:0]
    sent = parcel.add(torch.cat([below, above, (inside == 0).sum().view(1), counted]))

    def finish() -> Fields:
        below, above, inactive, *counts = sent.tensor.tolist()
        found: Fields = {"bounds": Bounds(low, high, below, above)}
        if axis is None:
            return found
        found |= {"units": units, "inactive_units": inactive}
        if units <= _MOST_UNITS:
            packed = np.minimum(counts, np.iinfo(np.uint32).max).astype("<u4").tobytes()
            found["unit_active"] = base64.b64encode(packed).decode()
        return found

    return finish


def _channels(tensor: Any, named: int, parcel: Parcel) -> Callable[[], Fields]:
    axis = _axis(tensor, named)
    if axis is None or tensor.shape[axis] > _MOST_CHANNELS:
        return dict
    shape = [-1 if at == axis else 1 for at in range(tensor.dim())]
    count, total, spread = (_zeros(tensor.shape[axis], tensor).double() for _ in range(3))
    for at, block in _blocks(tensor, axis):
        count[at] += _along(block.isfinite(), axis)
        total[at] += _along(block.nan_to_num(0, 0, 0), axis)
    mean = total / count
    for at, block in _blocks(tensor, axis):
        apart = (block - mean[at].view(shape)).nan_to_num_(0, 0, 0)
        spread[at] += _along(apart.square_(), axis)
    sent: Box = parcel.add(torch.stack([mean, spread / count]))

    def finish() -> Fields:
        known = [
            tuple(number if math.isfinite(number) else None for number in row)
            for row in sent.tensor.tolist()
        ]
        return {"channels": Channels(named, known[0], known[1])}

    return finish


def _axis(tensor: Any, axis: int) -> int | None:
    """The axis counted from the first, if the tensor has it."""
    return axis % tensor.dim() if -tensor.dim() <= axis < tensor.dim() else None


def _blocks(tensor: Any, axis: int, start: int = 0) -> Iterator[tuple[slice, Any]]:
    """The tensor in small parts as doubles, each with its place along an axis."""
    if tensor.numel() <= CHUNK:
        yield slice(start, start + tensor.shape[axis]), tensor.double()
        return
    longest = max(range(tensor.dim()), key=tensor.shape.__getitem__)
    half = tensor.shape[longest] // 2
    for part, behind in zip(tensor.tensor_split([half], longest), (0, half), strict=True):
        yield from _blocks(part, axis, start + (behind if longest == axis else 0))


def _along(block: Any, axis: int) -> Any:
    """The sums over all other axes."""
    others = [at for at in range(block.dim()) if at != axis]
    return block.sum(others) if others else block


def _zeros(count: int, tensor: Any) -> Any:
    return torch.zeros(count, dtype=torch.int64, device=tensor.device)
