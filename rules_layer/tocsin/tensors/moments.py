"""Sums over the finite elements of an array, in blocks that stay in the processor's cache.

A block is widened to doubles once, then read from the cache by a handful of numpy's loops. No
temporary is as large as the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.tensors.bfloat16 import from_bfloat16, is_bfloat16

_BLOCK = 1 << 15  # elements; their doubles fill a quarter of a MiB
_PIECE = 1 << 13  # elements; BLAS would share longer vectors out to threads
_CANCELS = 0.1  # below this part of the sum of squares the mean is subtracted first
_ALIKE = 1e-9  # below this part elements may all be the same
_SQUARES = (1e-140, 1e140)  # largest magnitudes whose squares neither vanish nor overflow

_Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """Counts over all elements, the rest over the ``finite`` ones.

    ``spread`` is the sum of squares around the mean. The four sums are of elements divided by two
    to the power of ``exponent``, so that none overflows; what is made of them still may.
    """

    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    finite: int = 0
    zeros: int = 0
    minimum: float = math.nan
    maximum: float = math.nan
    total: float = 0.0
    magnitude: float = 0.0
    squares: float = 0.0
    spread: float = 0.0
    exponent: int = 0

    @property
    def mean(self) -> float:
        return self._mean(self.total)

    @property
    def abs_mean(self) -> float:
        return self._mean(self.magnitude)

    @property
    def variance(self) -> float:
        """The variance of the population; exactly zero where all elements are the same."""
        return 0.0 if self.minimum == self.maximum else self._mean(self.spread, 2)

    @property
    def l1(self) -> float:
        return self._scaled(self.magnitude)

    @property
    def l2(self) -> float:
        return self._scaled(math.sqrt(self.squares))

    def _mean(self, total: float, power: int = 1) -> float:
        return self._scaled(total / self.finite, power) if self.finite else math.nan

    def _scaled(self, number: float, power: int = 1) -> float:
        try:
            return math.ldexp(number, power * self.exponent)
        except OverflowError:
            return math.copysign(math.inf, number)


class Parts(NamedTuple):
    """The requested moments: others may be NaN. ``squares`` and counts are always there."""

    bounds: bool = True
    zeros: bool = True
    total: bool = True
    magnitude: bool = True


EVERY = Parts()


def moments(
    flat: NDArray[Any], previous: NDArray[Any] | None = None, parts: Parts = EVERY
) -> Moments:
    """Return the moments of a flat array of numbers of any type, complex ones by their magnitude.

    With ``previous``, as long and flat, those of ``abs(flat - previous)``.
    """
    with np.errstate(all="ignore"):
        if parts != EVERY and _squares_fit(flat.dtype):
            found = [_some(*wide, parts) for wide in _widened(flat, previous, 0)]
            return found[0] if len(found) == 1 else _join(found, found, 0)
        found = [_block(*wide) for wide in _widened(flat, previous, 0)]
        largest = max((max(-b.minimum, b.maximum) for b in found if b.finite), default=0.0)
        if largest == 0 or _SQUARES[0] < largest < _SQUARES[1]:
            return found[0] if len(found) == 1 else _join(found, found, 0)
        exponent = math.frexp(largest)[1]  # powers of two divide without rounding
        scaled = [_block(*wide) for wide in _widened(flat, previous, exponent)]
        return _join(found, scaled, exponent)


def _widened(
    flat: NDArray[Any], previous: NDArray[Any] | None, exponent: int
) -> Iterator[tuple[_Floats, NDArray[Any]]]:
    """Each block as doubles, and in the form that is the quickest to compare."""
    buffer = np.empty(min(len(flat), _BLOCK))
    before = np.empty_like(buffer) if previous is not None else buffer
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        wide = buffer[: len(part)]
        if previous is not None and "c" in (part.dtype.kind, previous.dtype.kind):
            np.abs(_exact(part) - _exact(previous[start : start + _BLOCK]), out=wide)
        elif previous is not None:
            np.copyto(wide, _real(part), casting="unsafe")
            np.copyto(before[: len(part)], _real(previous[start : start + _BLOCK]), "unsafe")
            np.subtract(wide, before[: len(part)], out=wide)
            np.abs(wide, out=wide)
        elif part.dtype.kind == "c":
            np.abs(_exact(part), out=wide)
        else:
            np.copyto(wide, _real(part), casting="unsafe")
        if exponent:
            np.ldexp(wide, -exponent, out=wide)
        narrow = part.dtype.char == "f" and previous is None
        yield wide, part if narrow else wide


def _real(part: NDArray[Any]) -> NDArray[Any]:
    """Numbers of a type that numpy can widen."""
    return from_bfloat16(part) if is_bfloat16(part.dtype) else part


def _exact(part: NDArray[Any]) -> NDArray[Any]:
    part = _real(part)
    return part.astype(np.complex128 if part.dtype.kind == "c" else np.float64, copy=False)


def _squares_fit(dtype: np.dtype[Any]) -> bool:
    """Return whether doubles hold the squares of all numbers of a type, and of their
    differences."""
    return dtype.kind in "biu" or dtype.char in "fe" or is_bfloat16(dtype)


def _some(wide: _Floats, same: NDArray[Any], parts: Parts) -> Moments:
    """The requested moments of a block, which is overwritten."""
    squares = _squares(wide)
    if not math.isfinite(squares):
        return _block(wide, same)
    minimum = maximum = total = magnitude = spread = math.nan
    zeros = 0
    if parts.zeros:
        zeros = int(np.count_nonzero(same == 0.0))
    if parts.total:
        total = float(np.add.reduce(wide))
        spread = squares - total * (total / len(wide))
        if spread < _CANCELS * squares:
            spread = _squares(wide - total / len(wide))
    if parts.bounds or spread <= _ALIKE * squares:  # all the same? the bounds are exact
        minimum, maximum = float(np.minimum.reduce(same)), float(np.maximum.reduce(same))
    if parts.magnitude:
        magnitude = float(np.add.reduce(np.abs(wide, out=wide)))
    return Moments(0, 0, 0, len(wide), zeros, minimum, maximum, total, magnitude, squares, spread)


def _block(wide: _Floats, same: NDArray[Any]) -> Moments:
    """The moments of a block, which is overwritten."""
    nan = posinf = neginf = 0
    minimum, maximum = float(np.minimum.reduce(same)), float(np.maximum.reduce(same))
    if not math.isfinite(minimum) or not math.isfinite(maximum):
        nan = int(np.count_nonzero(np.isnan(wide)))
        posinf = int(np.count_nonzero(wide == math.inf))
        neginf = int(np.count_nonzero(wide == -math.inf))
        wide = same = wide[np.isfinite(wide)]
        if not len(wide):
            return Moments(nan, posinf, neginf)
        minimum, maximum = float(np.minimum.reduce(wide)), float(np.maximum.reduce(wide))
    finite = len(wide)
    signs = minimum < 0.0 < maximum
    zeros = int(np.count_nonzero(same == 0.0)) if minimum <= 0.0 <= maximum else 0
    total = float(np.add.reduce(wide))
    squares = _squares(wide)
    spread = squares - total * (total / finite)
    if spread < _CANCELS * squares:
        spread = _squares(wide - total / finite)
    magnitude = float(np.add.reduce(np.abs(wide, out=wide))) if signs else abs(total)
    return Moments(
        nan, posinf, neginf, finite, zeros, minimum, maximum, total, magnitude, squares, spread
    )


def _squares(wide: _Floats) -> float:
    if len(wide) <= _PIECE:
        return float(np.dot(wide, wide))
    pieces = (wide[start : start + _PIECE] for start in range(0, len(wide), _PIECE))
    return float(sum(np.dot(piece, piece) for piece in pieces))


def _join(found: list[Moments], scaled: list[Moments], exponent: int) -> Moments:
    """One from all blocks: counts and bounds of ``found``, sums of the same blocks ``scaled``."""
    counts = Moments(
        nan=sum(block.nan for block in found),
        posinf=sum(block.posinf for block in found),
        neginf=sum(block.neginf for block in found),
        finite=sum(block.finite for block in found),
        zeros=sum(block.zeros for block in found),
        exponent=exponent,
    )
    found = [block for block in found if block.finite]
    scaled = [block for block in scaled if block.finite]
    if not found:
        return counts
    total = math.fsum(block.total for block in scaled)
    mean = total / counts.finite
    return counts._replace(
        minimum=_bound(min, [block.minimum for block in found]),
        maximum=_bound(max, [block.maximum for block in found]),
        total=total,
        magnitude=math.fsum(block.magnitude for block in scaled),
        squares=math.fsum(block.squares for block in scaled),
        spread=math.fsum(b.spread + b.finite * (b.mean - mean) ** 2 for b in scaled),
    )


def _bound(of: Callable[[list[float]], float], bounds: list[float]) -> float:
    """The least or largest bound; NaN if that of a block is not known."""
    return math.nan if any(map(math.isnan, bounds)) else of(bounds)
