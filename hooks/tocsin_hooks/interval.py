"""The summary of a save interval: a number of every step since the save before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray
from tocsin.model import Bounds, Role, TensorSummary

from tocsin_hooks.looks import Name

LOSS, GRADIENT = "loss", "gradient"
"""The kinds of numbers that are summarised."""

_LATEST = 64  # steps that a level is known by
_BLOCK = 16  # steps that are judged together; a level takes as many

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Spike:
    """A spike is a finite number above ``ratio`` times the level.

    The level is a ``quantile`` of the latest 64 steps before, and while it ``lasts``, the largest
    such quantile so far. It is at least the median of the latest 16 steps, which a rise that
    lasts moves as well.
    """

    ratio: float
    quantile: float
    lasts: bool


LOSS_SPIKE = Spike(10.0, 0.75, lasts=True)
GRADIENT_SPIKE = Spike(30.0, 0.5, lasts=False)


def interval_name(kind: str, number: int = 0) -> Name:
    """Return the name of the summary of an optimizer's losses or gradients."""
    suffix = f"_{number}" if number else ""
    return Name(f"interval/{kind}{suffix}", ("intervals",), Role.INTERVAL, kind)


class SeriesSummary:
    """Summarises one series of numbers, interval by interval, and counts its spikes.

    The first 16 steps are not judged.
    """

    def __init__(self, spike: Spike) -> None:
        self._spike = spike
        self._latest: Numbers = np.empty(0)  # magnitudes
        self._level = 0.0

    def of(
        self, steps: Sequence[int], values: Numbers, scales: Numbers | None = None
    ) -> TensorSummary:
        """Return the summary of an interval with at least one value, each with its step.

        Spikes are those of the values, divided by ``scales`` if there are any. ``bounds`` has
        their number, and the last limit of a value; none before there is a level.
        """
        judged = values if scales is None else values / scales
        limit, spikes = None, 0
        for start in range(0, len(values), _BLOCK):
            limit, found = self._judge(judged[start : start + _BLOCK])
            spikes += found
        if limit is not None and scales is not None:
            limit *= float(scales[-1])
        finite = values[np.isfinite(values)]
        largest = max(range(len(values)), key=lambda at: _order(float(values[at])))
        return TensorSummary(
            size=len(values),
            nan=int(np.isnan(values).sum()),
            posinf=int(np.isposinf(values).sum()),
            neginf=int(np.isneginf(values).sum()),
            min=_rounded(finite.min()) if finite.size else None,
            max=_rounded(finite.max()) if finite.size else None,
            mean=_rounded(finite.mean()) if finite.size else None,
            quantiles={"0.5": _rounded(np.median(finite))} if finite.size else None,
            bounds=None if limit is None else Bounds(high=_rounded(limit), above=spikes),
            max_step=steps[largest],
        )

    def _judge(self, block: Numbers) -> tuple[float | None, int]:
        """Return the limit of a few numbers, if there is a level, and how many are above it."""
        spike, finite = self._spike, block[np.isfinite(block)]
        self._latest = np.concatenate([self._latest, np.abs(finite)])[-_LATEST:]
        limit, spikes = None, 0
        if self._level > 0:
            limit = spike.ratio * max(self._level, float(np.median(self._latest[-_BLOCK:])))
            spikes = int((finite > limit).sum())
        if len(self._latest) >= _BLOCK:
            level = float(np.quantile(self._latest, spike.quantile))
            self._level = max(self._level, level) if spike.lasts else level
        return limit, spikes


class IntervalSummary:
    """Summarises the losses and the gradient norms of one optimizer, interval by interval.

    The spikes of gradients are those of norms relative to the loss: a norm is divided by the loss
    of its step, or by the median loss of the latest 64 steps if that is larger. A batch with a
    large loss has large gradients. Without losses no spikes of gradients are counted.
    """

    def __init__(self) -> None:
        self._losses = SeriesSummary(LOSS_SPIKE)
        self._norms = SeriesSummary(GRADIENT_SPIKE)
        self._latest: list[float] = []  # magnitudes of finite losses

    def losses(self, steps: Sequence[int], values: Numbers) -> TensorSummary:
        return self._losses.of(steps, values)

    def norms(self, steps: Sequence[int], values: Numbers, losses: Numbers) -> TensorSummary:
        """Return the summary of norms, each with the loss of its backward pass."""
        scales = [
            scale
            for start in range(0, len(steps), _BLOCK)
            for scale in self._scales(losses[start : start + _BLOCK].tolist())
        ]
        if not all(scales):
            return SeriesSummary(GRADIENT_SPIKE).of(steps, values)
        return self._norms.of(steps, values, np.array(scales))

    def _scales(self, losses: Sequence[float]) -> list[float]:
        """Return the loss that norms are divided by; 0 if no loss is known."""
        sizes = [abs(each) if math.isfinite(each) else 0.0 for each in losses]
        known = (abs(each) for each in losses if math.isfinite(each))
        self._latest = [*self._latest, *known][-_LATEST:]
        usual = median(self._latest or [0.0])
        return [max(size, usual) for size in sizes]


def _order(value: float) -> float:
    """Return a number by which values that are not finite are the largest."""
    return value if math.isfinite(value) else math.inf


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
