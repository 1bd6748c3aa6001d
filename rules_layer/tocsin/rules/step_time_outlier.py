from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

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
from tocsin.rules._machine import (
    MINUTE,
    MOST_WORKERS,
    by_worker,
    durations,
    none_of,
    samples,
    seconds_by_worker,
    system,
    timed,
)

_WINDOW = 5  # minutes
_ENOUGH = 50  # steps
_WIDTH = 1.02  # of a bin: durations are kept as counts of bins that are 2 % wide
_MOST_BINS = 100  # of a worker and minute; then the fastest are put together
_LEAST, _MOST_SECONDS = 1e-6, 1e6

Counts = Mapping[str, int]
Minute = Mapping[str, Any]
"""Steps by the bin of their duration (``bins``), and the seconds in which the training was ready to
run and had no core (``taken``).
"""


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

    Steps that other work on the machine interrupts are no finding about the training. The time in
    which the process was ready to run and waited for a core, or the hypervisor took it, is left out
    of the outliers' time. If what is left is at most ``share``, the rule does not fire, and its
    details say so.

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
        return Reads(
            {
                "steps": durations("step", values=True),
                "minute": MINUTE,
                "taken": system("process_runqueue", "cpu_steal"),
            }
        )

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        steps = [tensor for tensor in timed(step)[:MOST_WORKERS] if _is_measured(tensor)]
        if not steps:
            return state, none_of("timed step")
        windows: dict[str, list[Minute]] = {}
        found: list[_Found] = []
        most: int | None = None
        taken = _taken(step)
        for tensor in steps:
            minute = {"bins": _counted(tensor), "taken": taken.get(tensor.worker, 0.0)}
            before = [each for each in state.get(tensor.worker, []) if "bins" in each]
            window = [*before, minute][-_WINDOW:]
            windows[tensor.worker] = window
            times, counts = _sorted(window)
            if int(counts.sum()) < _ENOUGH:
                continue
            taken_in_all = sum(minute["taken"] for minute in window)
            each = _outliers(tensor, times, counts, self.ratio, taken_in_all)
            most = max(each.slow, most or 0)
            if each.slow > self.outliers and each.beyond > self.share * each.seconds:
                found.append(each)
        if most is None:
            return windows, UNDECIDED
        if not found:
            return windows, measured(HEALTHY, most, self.outliers)
        own = [each for each in found if each.beyond - each.taken > self.share * each.seconds]
        worst = max(own or found, key=lambda each: each.slow)
        if not own:
            interrupted = replace(HEALTHY, detail=f"{worst.detail}; {worst.excuse}")
            return windows, measured(interrupted, worst.slow, self.outliers)
        fault = violation(Reason.ABOVE_THRESHOLD, worst.detail, worst.tensor, **worst.evidence)
        return windows, measured(fault, worst.slow, self.outliers)


@dataclass(frozen=True)
class _Found:
    """The outliers of a machine: how many of how many steps, and in seconds the median, the worst,
    the time of all steps, that of the outliers beyond the median, and the time in which the
    training had no core.
    """

    tensor: Tensor
    slow: int
    steps: int
    median: float
    worst: float
    seconds: float
    beyond: float
    taken: float

    @property
    def detail(self) -> str:
        return (
            f"{self.slow} of {self.steps} steps on {self.tensor.worker} took far longer than "
            f"{self.median:.3g} s, up to {self.worst:.3g} s"
        )

    @property
    def excuse(self) -> str:
        return (
            f"other work on the machine interrupted them: the training waited {self.taken:.3g} s "
            "for a core"
        )

    @property
    def evidence(self) -> dict[str, float | int | str]:
        found = {"outliers": self.slow, "steps": self.steps, "median": self.median}
        return {**found, "worst": self.worst, "waited_for_core": round(self.taken, 2)}


def _taken(step: Step) -> dict[str, float]:
    """The seconds of the minute in which the training of each machine had no core."""
    lengths = seconds_by_worker(step)
    return {
        worker: round(sum(t.summary.mean or 0.0 for t in found) / 100 * lengths.get(worker, 0.0), 3)
        for worker, found in by_worker(step.tensors["taken"]).items()
    }


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


def _sorted(window: Iterable[Minute]) -> tuple[np.ndarray, np.ndarray]:
    total: Counter[int] = Counter()
    for minute in window:
        for at, count in minute["bins"].items():
            total[int(at)] += count
    bins = sorted(total)
    times = np.array([_WIDTH**at for at in bins], np.float64)
    return times, np.array([total[at] for at in bins], np.int64)


def _outliers(
    tensor: Tensor, times: np.ndarray, counts: np.ndarray, ratio: float, taken: float
) -> _Found:
    middle = _median(times, counts)
    distances = np.abs(times - middle)
    order = np.argsort(distances)
    deviation = _median(distances[order], counts[order])
    slow = times > middle + max(5 * 1.4826 * deviation, (ratio - 1) * middle)
    return _Found(
        tensor,
        slow=int(counts[slow].sum()),
        steps=int(counts.sum()),
        median=middle,
        worst=float(times[-1]),
        seconds=float((times * counts).sum()),
        beyond=float(((times - middle) * counts)[slow].sum()),
        taken=taken,
    )


def _median(values: np.ndarray, counts: np.ndarray) -> float:
    at = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    return float(values[min(at, values.size - 1)])
