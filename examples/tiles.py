"""Small matrices side by side as SVG: images, saliency maps, attention."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]

_WIDE, _TOP, _GAP = 640, 40, 6
_LARGEST = 110  # pixels of a tile's side
_SHADES = 8
_INK, _POSITIVE, _NEGATIVE = "#222b36", "#c2571a", "#1f5fbf"


def tiles(
    title: str,
    rows: Mapping[str, Sequence[Matrix]],
    signed: Collection[str] = (),
    left: int = 150,
) -> str:
    """Rows of square matrices, each with its name in ``left`` pixels beside it.

    A row's darkest shade is its largest absolute value. Rows that are ``signed`` have positive
    values in orange and negative ones in blue, others are drawn in ink from 0 up.
    """
    most = max(len(row) for row in rows.values())
    side = min(_LARGEST, (_WIDE - left) // most - _GAP)
    high = _TOP + len(rows) * (side + _GAP)
    form = f'viewBox="0 0 {_WIDE} {high}" role="img" font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {form}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDE}" height="{high}" fill="#fff"/>',
        f'<text x="8" y="22" font-weight="bold">{escape(title)}</text>',
    ]
    for down, (name, row) in enumerate(rows.items()):
        y = _TOP + down * (side + _GAP)
        parts.append(f'<text x="8" y="{y + side // 2 + 4}">{escape(name)}</text>')
        scale = max((float(np.abs(matrix).max()) for matrix in row), default=0.0) or 1.0
        for across, matrix in enumerate(row):
            x, size = left + across * (side + _GAP), side / len(matrix)
            parts.append(f'<g transform="translate({x} {y}) scale({size:.4g})">')
            parts += _shaded(matrix / scale, signed=name in signed)
            edge = f'width="{len(matrix)}" height="{len(matrix)}" fill="none" stroke="#586371"'
            parts.append(f'<rect {edge} stroke-width="{1 / size:.2g}"/></g>')
    return "\n".join([*parts, "</svg>\n"])


def _shaded(matrix: Matrix, *, signed: bool) -> Iterator[str]:
    """A path of squares for each shade of a matrix from -1 to 1."""
    shades = np.rint(matrix * _SHADES).astype(int)
    for shade in np.unique(shades[shades != 0] if signed else shades[shades > 0]).tolist():
        squares = "".join(f"M{x} {y}h1v1h-1z" for y, x in np.argwhere(shades == shade).tolist())
        color = _INK if not signed else _POSITIVE if shade > 0 else _NEGATIVE
        yield f'<path d="{squares}" fill="{color}" fill-opacity="{abs(shade) / _SHADES:g}"/>'
