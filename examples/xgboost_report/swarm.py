"""A SHAP summary as SVG: a row of dots for each feature, a dot for each sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[Any]
Swarm = Mapping[str, tuple[Vector, Vector]]
"""By feature the SHAP values of all samples, and the feature's own values."""

_WIDE, _LEFT, _HEAD, _ROW = 720, 190, 34, 24
_BINS = 80
_COLORS = ("#1f5fbf", "#7a8694", "#c2571a")  # a third of the samples each: low, middle, high


def summary(swarms: Mapping[str, Swarm]) -> str:
    """The swarms by their titles, one below the other, each with an axis of its own."""
    parts, top = list[str](), 8
    for title, swarm in swarms.items():
        parts += _drawn(title, swarm, top)
        top += _HEAD + len(swarm) * _ROW + 24
    form = f'viewBox="0 0 {_WIDE} {top}" role="img" font-family="sans-serif" font-size="13"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {form}>',
            f"<title>{escape(', '.join(swarms))}</title>",
            f'<rect width="{_WIDE}" height="{top}" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _drawn(title: str, swarm: Swarm, top: int) -> Sequence[str]:
    most = max(float(np.abs(shap).max()) for shap, _ in swarm.values()) or 1.0
    wide, middle = (_WIDE - _LEFT) / 2 - 16, (_WIDE + _LEFT) / 2
    down = top + _HEAD + len(swarm) * _ROW
    parts = [
        f'<text x="8" y="{top + 16}" font-weight="bold">{escape(title)}</text>',
        f'<path d="M{middle} {top + _HEAD - 8}V{down}" stroke="#586371"/>',
        f'<text x="{middle}" y="{down + 14}" text-anchor="middle">0</text>',
        f'<text x="{middle + wide}" y="{down + 14}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{middle - wide}" y="{down + 14}">-{most:.3g}</text>',
    ]
    for at, (feature, (shap, values)) in enumerate(swarm.items()):
        y = top + _HEAD + at * _ROW + _ROW / 2
        parts.append(f'<text x="8" y="{y + 4:g}">{escape(feature)}</text>')
        bins = np.rint(shap / most * _BINS).astype(int)
        thirds = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
        for color, third in zip(_COLORS, range(3), strict=True):
            dots = "".join(
                f"M{middle + shap[n] / most * wide:.1f} {y + _aside(bins, n):.1f}h0"
                for n in np.flatnonzero(thirds == third)
            )
            form = f'stroke="{color}" stroke-width="4" stroke-linecap="round"'
            parts.append(f'<path d="{dots}" {form}/>')
    return parts


def _aside(bins: NDArray[np.int64], at: int) -> float:
    """Pixels by which a dot moves up or down, so that it does not hide those of its bin."""
    before = int(np.count_nonzero(bins[:at] == bins[at]))
    return float(np.clip((before + 1) // 2 * (-1) ** before * 2.2, -10, 10))
