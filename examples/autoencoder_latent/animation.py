"""Points that move, as SVG: a panel for each training, a frame for each evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIDE, _HEAD, _GAP = 312, 40, 16
_MOST_POINTS, _MOST_FRAMES = 150, 20
_SECONDS = 0.35  # of a frame; the last one stays longer
_COLORS = (
    "#1f5fbf", "#c2571a", "#16693a", "#8a2be2", "#b8860b",
    "#d02090", "#008b8b", "#7a8694", "#222b36", "#e03131",
)  # fmt: skip


def animation(panels: Mapping[str, NDArray[Any]], labels: NDArray[Any], steps: int) -> str:
    """Points (evaluations, samples, 2) of each panel, coloured by label, all on the same scale.

    ``steps`` are training steps between two evaluations.
    """
    most = max(float(np.abs(points).max()) for points in panels.values()) * 1.02
    wide, high = len(panels) * (_SIDE + _GAP) - _GAP, _HEAD + _SIDE + 24
    form = f'viewBox="0 0 {wide} {high}" role="img" font-family="sans-serif" font-size="13"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {form}>',
        f"<title>{escape(', '.join(panels))}</title>",
    ]
    parts.append(f'<rect width="{wide}" height="{high}" fill="#fff"/>')
    frames = min(map(len, panels.values()))
    chosen = np.unique(np.linspace(0, frames - 1, _MOST_FRAMES).round().astype(int)).tolist()
    for across, name in enumerate(panels):
        x = across * (_SIDE + _GAP)
        parts.append(f'<text x="{x}" y="24" font-weight="bold">{escape(name)}</text>')
        box = f'width="{_SIDE - 1}" height="{_SIDE}" fill="none" stroke="#586371"'
        parts.append(f'<rect x="{x + 0.5}" y="{_HEAD}" {box}/>')
    for label, color in enumerate(_COLORS):
        place = f'x="{wide - 14 * (len(_COLORS) - label)}" y="{high - 6}"'
        parts.append(f'<text {place} fill="{color}" font-weight="bold">{label}</text>')
    for at, frame in enumerate(chosen):
        last = at == len(chosen) - 1
        parts.append(f'<g visibility="{"visible" if last else "hidden"}">')
        parts.append(_shown_at(at, len(chosen)))
        parts.append(f'<text x="0" y="{high - 6}">after {frame * steps} steps</text>')
        for across, points in enumerate(panels.values()):
            parts += _dots(points[frame] / most, labels, across * (_SIDE + _GAP))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _shown_at(at: int, frames: int) -> str:
    """The last frame stays for a third of the time."""
    total = frames * 1.5
    end = 1.0 if at == frames - 1 else (at + 1) / total
    times = f"0;{at / total:.4f};{end:.4f}" if at else f"0;{end:.4f}"
    values = "hidden;visible;hidden" if at else "visible;hidden"
    how = f'dur="{total * _SECONDS:g}s" repeatCount="indefinite" calcMode="discrete"'
    return f'<animate attributeName="visibility" values="{values}" keyTimes="{times}" {how}/>'


def _dots(points: NDArray[Any], labels: NDArray[Any], left: float) -> Iterator[str]:
    places = (points[:_MOST_POINTS] + 1) / 2 * _SIDE + [left, _HEAD]
    for label, color in enumerate(_COLORS):
        own = places[labels[: len(places)] == label]
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in own.tolist())
        yield f'<path d="{dots}" stroke="{color}" stroke-width="5" stroke-linecap="round"/>'
