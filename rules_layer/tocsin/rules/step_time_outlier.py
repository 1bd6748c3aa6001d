from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    MACHINE,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    Tensor,
    measured,
    register,
    violation,
)
from tocsin.rules._machine import MOST_WORKERS, durations, none_of, samples, timed

_WINDOW = 5  # minutes
_ENOUGH = 50  # steps
_WIDTH = 1.02  # of a bin: durations are kept as counts of bins that are 2 % wide
_MOST_BINS = 100  # of a worker and minute; then the fastest are put together
_LEAST, _MOST_SECONDS = 1e-6, 1e6

Counts = Mapping[str, int]


@register
@dataclass(frozen=True)
class StepTimeOutlier(Rule):
    """Some steps take far longer than the others, again and again.

    Over the training steps of the last five minutes of each machine: a step is an outlier if it
    takes longer than the median plus five standard deviations, and than ``ratio`` medians. The
    deviation is estimated by the median absolute deviation, which outliers do not change. Fires
    when there are more than ``outliers`` of them, and when the time beyond the median that they
    took is more than ``share`` of all. If over half of the steps are slow they are the usual ones:
    see SlowerThanBefore.

    Parameters
    ----------
    outliers: steps in five minutes.
    share: of the time of all steps, from 0 to 1.
    ratio: least duration of an outlier, in medians: some steps do twice the work.

    Example: of 200 steps in five minutes 20 take 1 s, and the others 0.1 s.
    """

    about: ClassVar[str] = MACHINE
    causes: ClassVar[str] = (
        "Python's garbage collector, a log or model checkpoint that is written in the step, a "
        "lock, another process on the machine, or inputs of very different sizes."
    )
    advice: ClassVar[str] = (
        "Look at what happens at these steps: write logs and checkpoints in the background, call "
        "gc.freeze() or gc.disable() in the loop, and group inputs by size."
    )

    outliers: Annotated[int, Meta(ge=1)] = 10
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.05
    ratio: Annotated[float, Meta(gt=1)] = 2.5

    def reads(self) -> Reads:
        return Reads({"steps": durations("step", values=True)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        steps = [tensor for tensor in timed(step)[:MOST_WORKERS] if _is_measured(tensor)]
        if not steps:
            return state, none_of("timed step")
        windows: dict[str, list[Counts]] = {}
        found: list[tuple[int, Tensor, float, float, int]] = []
        most: int | None = None
        for tensor in steps:
            before = state.get(tensor.worker, [])
            window = [*before, _counted(tensor)][-_WINDOW:]
            windows[tensor.worker] = window
            times, counts = _sorted(window)
            number = int(counts.sum())
            if number < _ENOUGH:
                continue
            middle, slow, share = _outliers(times, counts, self.ratio)
            most = max(slow, most or 0)
            if slow > self.outliers and share > self.share:
                found.append((slow, tensor, middle, float(times[-1]), number))
        if most is None:
            return windows, UNDECIDED
        if not found:
            return windows, measured(HEALTHY, most, self.outliers)
        slow, tensor, middle, worst, number = max(found, key=lambda each: each[0])
        detail = (
            f"{slow} of {number} steps on {tensor.worker} took far longer than {middle:.3g} s, "
            f"up to {worst:.3g} s"
        )
        evidence = {"outliers": slow, "steps": number, "median": middle, "worst": worst}
        fault = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
        return windows, measured(fault, slow, self.outliers)


def _is_measured(tensor: Tensor) -> bool:
    return not tensor.summary.size or samples(tensor) is not None


def _counted(tensor: Tensor) -> Counts:
    """The steps of a minute by the bin of their duration. Samples count for those left out."""
    durations = samples(tensor)
    if durations is None:
        return {}
    seconds = np.clip(durations, _LEAST, _MOST_SECONDS)
    bins = np.rint(np.log(seconds) / math.log(_WIDTH)).astype(int)
    bins = np.maximum(bins, bins.max(initial=0) - 10 * _MOST_BINS)
    each = max(1.0, (tensor.summary.size or 0) / durations.size)
    counted = Counter(bins.tolist())
    if len(counted) > _MOST_BINS:
        counted = Counter(bins[:: len(counted) // _MOST_BINS + 1].tolist())
        each *= bins.size / max(1, counted.total())
    return {str(at): round(count * each) for at, count in sorted(counted.items())}


def _sorted(window: Iterable[Counts]) -> tuple[np.ndarray, np.ndarray]:
    total: Counter[int] = Counter()
    for minute in window:
        for at, count in minute.items():
            total[int(at)] += count
    bins = sorted(total)
    times = np.array([_WIDTH**at for at in bins], np.float64)
    return times, np.array([total[at] for at in bins], np.int64)


def _outliers(times: np.ndarray, counts: np.ndarray, ratio: float) -> tuple[float, int, float]:
    """The median, the number of outliers, and the share of the time that they took beyond it."""
    middle = _median(times, counts)
    distances = np.abs(times - middle)
    order = np.argsort(distances)
    deviation = _median(distances[order], counts[order])
    slow = times > middle + max(5 * 1.4826 * deviation, (ratio - 1) * middle)
    beyond = float(((times - middle) * counts)[slow].sum())
    return middle, int(counts[slow].sum()), beyond / float((times * counts).sum())


def _median(values: np.ndarray, counts: np.ndarray) -> float:
    at = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    return float(values[min(at, values.size - 1)])
