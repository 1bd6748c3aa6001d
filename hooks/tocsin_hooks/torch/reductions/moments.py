"""The plain numbers of many tensors, reduced together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tocsin.model import TensorSummary

from tocsin_hooks.torch.reductions.packing import packed, rows_of

WIDTH = 1 << 14
_EXACT_IN_FLOAT32 = frozenset(
    {torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.bool}
)
_Floats = NDArray[np.float64]


def moments(tensors: Sequence[Any], dtype: Any) -> Any:
    """Return the numbers of each row of tensors of one type and at least one element.

    The result is a float64 tensor on their device, for ``TensorMoments``. Nothing waits for it.
    """
    narrow = dtype in _EXACT_IN_FLOAT32
    wide = torch.float32 if narrow else torch.float64
    sizes = [tensor.numel() for tensor in tensors]
    rows = packed(tensors, sizes, WIDTH, math.nan, wide)
    return torch.cat([row_moments(each, scaled=not narrow) for each in rows])


def row_moments(rows: Any, *, scaled: bool) -> Any:
    """Ten numbers of each row, as columns; NaN at the end of a row counts as such.

    ``scaled``: sums are of elements divided by a power of two, so that no square overflows.
    """
    inf = math.inf
    nan, posinf, neginf = (
        bad.sum(1, dtype=torch.float64) for bad in (rows != rows, rows == inf, rows == -inf)
    )
    nonzero = torch.linalg.vector_norm(rows, 0, dim=1)
    low = rows.nan_to_num(inf, inf, inf).amin(1)
    high = rows.nan_to_num(-inf, -inf, -inf).amax(1)
    exponent = torch.zeros_like(nan)
    if scaled:
        largest = torch.maximum(-low, high).nan_to_num(0, 0, 0)
        exponent = torch.frexp(largest).exponent.double().clamp(-1000, 1000)
        rows = rows * torch.exp2(-exponent)[:, None]
    finite = rows.nan_to_num(0, 0, 0)
    total = finite.sum(1, dtype=torch.float64)
    magnitude = finite.abs_().sum(1, dtype=torch.float64)
    count = rows.shape[1] - nan - posinf - neginf
    around = (rows - (total / count)[:, None]).nan_to_num_(0, 0, 0)  # in float64
    spread = torch.linalg.vector_norm(around, 2, dim=1).square()
    columns = nan, posinf, neginf, nonzero, low, high, exponent, total, magnitude, spread
    return torch.stack([column.double() for column in columns], 1)


class TensorMoments:
    """The numbers of each tensor, from those of its rows; one element of an array for each."""

    def __init__(self, rows: _Floats, sizes: Sequence[int], width: int = WIDTH) -> None:
        with np.errstate(all="ignore"):
            self._join(rows, np.array([rows_of(size, width) for size in sizes]), width)
        size = np.array(sizes)
        self.size = size
        self.nan -= self._taken * width - size  # those at the ends of rows

    def _join(self, rows: _Floats, taken: NDArray[np.int64], width: int) -> None:
        starts = np.cumsum(taken) - taken
        nan, posinf, neginf, nonzero, low, high, exponent, total, magnitude, spread = rows.T
        count = width - nan - posinf - neginf
        exponent = np.where(count > 0, exponent, -np.inf)
        self._taken = taken
        self.nan, self.posinf, self.neginf, self.zeros, self.count = (
            np.add.reduceat(each, starts) for each in (nan, posinf, neginf, width - nonzero, count)
        )
        self.low = np.minimum.reduceat(low, starts)
        self.high = np.maximum.reduceat(high, starts)
        top = np.maximum.reduceat(exponent, starts)
        top = np.where(self.count > 0, top, 0)
        scale = np.exp2(exponent - np.repeat(top, taken))
        total = total * scale
        mean = np.add.reduceat(total, starts) / self.count
        apart = np.where(count > 0, total / count - np.repeat(mean, taken), 0)
        around = np.add.reduceat(spread * scale**2 + count * apart**2, starts)
        absolute = np.add.reduceat(magnitude * scale, starts)
        self.l1 = _scaled(absolute, top)
        self.abs_mean = _scaled(absolute / self.count, top)
        self.mean = _scaled(mean, top)
        self.variance = np.where(self.low == self.high, 0, _scaled(around / self.count, 2 * top))
        squares = around + np.where(self.count > 0, self.count * mean**2, 0)
        self.l2 = _scaled(np.sqrt(squares), top)

    def summaries(self) -> Iterator[TensorSummary]:
        """Return the summary of each tensor."""
        counts = (self.size, self.nan, self.posinf, self.neginf, self.zeros)
        numbers = (self.low, self.high, self.mean, self.abs_mean, self.variance, self.l1, self.l2)
        for whole, real in zip(
            np.stack(counts, 1).astype(np.int64).tolist(),
            np.stack(numbers, 1).tolist(),
            strict=True,
        ):
            yield TensorSummary(*whole, *(_known(number) for number in real))


def _scaled(numbers: _Floats, exponents: _Floats) -> _Floats:
    return np.ldexp(numbers, exponents.astype(np.int32))


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
