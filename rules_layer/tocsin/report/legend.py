"""The names of curves in a legend: as short as tells them apart, each curve once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tocsin.report.parts import Curve

_NAMES: tuple[Callable[[Curve], tuple[str, ...]], ...] = (
    lambda curve: (curve.phase or curve.measure,),
    lambda curve: (curve.phase or curve.measure, curve.worker),
    lambda curve: (curve.phase, curve.measure),
    lambda curve: (curve.name,),
    lambda curve: (curve.phase, curve.measure, curve.worker),
    lambda curve: (curve.mode.lower(), curve.name, curve.worker),
)
"""From short to whole. The last one is that of a single curve."""


def labelled(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves with their labels, and those that repeat another one of their kind.

    Curves of equal numbers share the label of the first: ``train = eval``.
    """
    found: list[Curve] = []
    for kind in dict.fromkeys(curve.kind for curve in curves):
        found += _of_a_kind([curve for curve in curves if curve.kind == kind])
    return found


def _of_a_kind(curves: Sequence[Curve]) -> list[Curve]:
    alike: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        alike.setdefault((tuple(curve.x), tuple(curve.y)), []).append(curve)
    drawn = {id(group[0]): group for group in alike.values()}
    names = dict(zip(drawn, _labels([group[0] for group in drawn.values()]), strict=True))
    return [
        msgspec.structs.replace(curve, label=names[id(curve)] + _others(drawn[id(curve)]))
        if id(curve) in drawn
        else msgspec.structs.replace(curve, repeats=True)
        for curve in curves
    ]


def _labels(curves: Sequence[Curve]) -> list[str]:
    for name in _NAMES:
        labels = [" ".join(filter(None, name(curve))) for curve in curves]
        if len(set(labels)) == len(curves):
            break
    return labels


def _others(group: Sequence[Curve]) -> str:
    """Name the second of equal curves by its difference, and count the others."""
    if len(group) == 1:
        return ""
    first, second = group[0], group[1]
    differs = next(
        (
            str(getattr(second, field))
            for field in ("phase", "name", "worker")
            if getattr(first, field) != getattr(second, field)
        ),
        second.mode.lower(),
    )
    more = f" and {len(group) - 2} more" if len(group) > 2 else ""
    return f" = {differs}{more}"
