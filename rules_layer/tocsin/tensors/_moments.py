"""Sums over a flat array of numbers, in one pass, in blocks that stay in the processor's cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 15  # elements; their doubles fill a quarter of a MiB
_PIECE = 1 << 13  # elements; BLAS would share longer vectors out to threads
_CANCELS = 0.1  # below this part of the sum of squares the mean is subtracted first
_SQUARES = (1e-140, 1e140)  # largest magnitudes whose squares neither vanish nor overflow

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Counts of all elements; the rest is over the finite ones, and infinite where too large.

    ``minimum``, ``maximum``, ``mean`` and ``variance`` are NaN where nothing is finite.
    """

    size: int
    finite: int
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zeros: int = 0
    minimum: float = math.nan
    maximum: float = math.nan
    mean: float = math.nan
    variance: float = math.nan
    l1: float = 0.0
    l2: float = 0.0


class _Block(NamedTuple):
    """What one block adds; ``spread`` is the sum of squares around its own mean."""

    size: int
    finite: int
    nan: int
    posinf: int
    neginf: int
    zeros: int
    minimum: float
    maximum: float
    total: float
    magnitude: float
    squares: float
    spread: float


def moments(flat: NDArray[Any]) -> Moments:
    """The moments of numbers of any type, complex ones by their magnitude."""
    found = list(_blocks(flat))
    largest = max((max(-b.minimum, b.maximum) for b in found if b.finite), default=0.0)
    if largest == 0.0 or _SQUARES[0] < largest < _SQUARES[1]:
        return _join(flat.size, found, 0)
    _, exponent = math.frexp(largest)  # powers of two scale without rounding
    return _join(flat.size, list(_blocks(flat, exponent)), exponent)


def magnitudes_of_difference(flat: NDArray[Any], previous: NDArray[Any]) -> Moments:
    """The moments of ``|flat - previous|``, element by element."""
    ...


def _join(size: int, blocks: list[_Block], exponent: int) -> Moments:
    finite = sum(b.finite for b in blocks)
    counts = {
        name: sum(getattr(b, name) for b in blocks) for name in ("nan", "posinf", "neginf", "zeros")
    }
    if not finite:
        return Moments(size, 0, **counts)
    filled = [b for b in blocks if b.finite]
    minimum, maximum = min(b.minimum for b in filled), max(b.maximum for b in filled)
    mean = math.fsum(b.total for b in filled) / finite
    spread = math.fsum(b.spread + b.finite * (b.total / b.finite - mean) ** 2 for b in filled)
    return Moments(
        size,
        finite,
        **counts,
        minimum=_scaled(minimum, exponent),
        maximum=_scaled(maximum, exponent),
        mean=_scaled(mean, exponent),
        variance=0.0 if minimum == maximum else _scaled(spread / finite, 2 * exponent),
        l1=_scaled(math.fsum(b.magnitude for b in filled), exponent),
        l2=_scaled(math.sqrt(math.fsum(b.squares for b in filled)), exponent),
    )


def _scaled(number: float, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.copysign(math.inf, number)


def _blocks(flat: NDArray[Any], exponent: int = 0) -> Iterator[_Block]:
    """Each block of ``flat``, divided by two to the power of ``exponent``."""
    buffer, spare = np.empty((2, min(len(flat), _BLOCK)))
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        wide = buffer[: len(part)]
        if part.dtype.kind == "c":
            np.abs(part.astype(np.complex128, copy=False), out=wide)
        else:
            np.copyto(wide, part, casting="unsafe")
        if exponent:
            np.ldexp(wide, -exponent, out=wide)
        yield _block(wide, spare)


def _block(block: _Floats, spare: _Floats) -> _Block:
    """The sums of one block, which is overwritten."""
    size = len(block)
    nan = posinf = neginf = 0
    minimum, maximum = float(np.minimum.reduce(block)), float(np.maximum.reduce(block))
    if not math.isfinite(maximum - minimum):  # or finite, but far apart
        nan = int(np.count_nonzero(np.isnan(block)))
        posinf = int(np.count_nonzero(block == math.inf))
        neginf = int(np.count_nonzero(block == -math.inf))
        block = block[np.isfinite(block)]
        if not len(block):
            return _Block(size, 0, nan, posinf, neginf, 0, *[math.nan] * 2, *[0.0] * 4)
        minimum, maximum = float(np.minimum.reduce(block)), float(np.maximum.reduce(block))
    finite = len(block)
    zeros = 0 if minimum > 0.0 or maximum < 0.0 else int(np.count_nonzero(block == 0.0))
    total = float(np.add.reduce(block))
    squares = _squares(block)
    mean = total / finite
    spread = squares - mean * total
    if spread < _CANCELS * squares:
        spread = _squares(np.subtract(block, mean, out=spare[:finite]))
    if minimum >= 0.0 or maximum <= 0.0:
        magnitude = abs(total)
    else:
        magnitude = float(np.add.reduce(np.abs(block, out=block)))
    return _Block(
        size, finite, nan, posinf, neginf, zeros, minimum, maximum, total, magnitude, squares, spread
    )


def _squares(block: _Floats) -> float:
    pieces = (block[start : start + _PIECE] for start in range(0, len(block), _PIECE))
    return float(sum(np.dot(piece, piece) for piece in pieces))
