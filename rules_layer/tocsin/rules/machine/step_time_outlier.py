from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, Tensor, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._durations import Outliers, counted, is_measured, outliers, together
from tocsin.rules.machine._machine import (
    MINUTE,
    MOST_WORKERS,
    by_worker,
    durations,
    none_of,
    seconds_by_worker,
    system,
    timed,
)

_WINDOW = 5  # minutes
_ENOUGH = 50  # steps
_DEVIATIONS = 5.0  # above the median: rare among usual steps

Minute = Mapping[str, Any]
"""Steps by the bin of their duration (``bins``), and the seconds in which the training was ready to
run and had no core (``taken``).
"""


@register
@dataclass(frozen=True)
class StepTimeOutlier(Rule):
    """Some steps take far longer than the others, again and again.

    A training step is an outlier if it takes longer than the median of the last five minutes plus
    five standard deviations (by the median absolute deviation), and than ``ratio`` medians. Fires
    when a machine has more than ``outliers`` of them, and the time that they took beyond the median
    is more than ``share`` of the time of all steps. Time in which the process waited for a core, or
    in which the hypervisor took the core, does not count: the training did not cause it. If more
    than half of the steps are slow, see SlowerThanBefore.

    Parameters
    ----------
    outliers: largest number of outliers in five minutes.
    share: largest share of the time of all steps, from 0 to 1.
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
        steps = [tensor for tensor in timed(step)[:MOST_WORKERS] if is_measured(tensor)]
        if not steps:
            return state, none_of("timed step")
        windows: dict[str, list[Minute]] = {}
        found: list[_Found] = []
        most: int | None = None
        taken = _taken(step)
        for tensor in steps:
            minute = {"bins": counted(tensor), "taken": taken.get(tensor.worker, 0.0)}
            before = [each for each in state.get(tensor.worker, []) if "bins" in each]
            window = [*before, minute][-_WINDOW:]
            windows[tensor.worker] = window
            counts = together(each["bins"] for each in window)
            if sum(counts.values()) < _ENOUGH:
                continue
            each = _Found(
                tensor,
                outliers(counts, _DEVIATIONS, self.ratio),
                sum(minute["taken"] for minute in window),
            )
            most = max(each.all.slow, most or 0)
            if each.all.slow > self.outliers and each.exceeds(self.share):
                found.append(each)
        if most is None:
            return windows, UNDECIDED
        if not found:
            return windows, measured(HEALTHY, most, self.outliers)
        own = [each for each in found if each.exceeds(self.share, without=each.taken)]
        worst = max(own or found, key=lambda each: each.all.slow)
        if not own:
            interrupted = replace(HEALTHY, detail=f"{worst.detail}; {worst.excuse}")
            return windows, measured(interrupted, worst.all.slow, self.outliers)
        fault = violation(Reason.ABOVE_THRESHOLD, worst.detail, worst.tensor, **worst.evidence)
        return windows, measured(fault, worst.all.slow, self.outliers, name="outliers")


@dataclass(frozen=True)
class _Found:
    """The outliers of a machine, and the seconds in which the training had no core."""

    tensor: Tensor
    all: Outliers
    taken: float

    def exceeds(self, share: float, without: float = 0.0) -> bool:
        """Return whether the outliers' time beyond the median is more than that share of all."""
        return self.all.beyond - without > share * self.all.seconds

    @property
    def detail(self) -> str:
        return (
            f"{self.all.slow} of {self.all.steps} steps on {self.tensor.worker} took far longer "
            f"than {self.all.median:.3g} s, up to {self.all.worst:.3g} s"
        )

    @property
    def excuse(self) -> str:
        return (
            f"other work on the machine interrupted them: the training waited {self.taken:.3g} s "
            "for a core"
        )

    @property
    def evidence(self) -> dict[str, float | int | str]:
        known = self.all
        found = {"outliers": known.slow, "steps": known.steps, "median": known.median}
        return {**found, "worst": known.worst, "waited_for_core": round(self.taken, 2)}


def _taken(step: Step) -> dict[str, float]:
    """The seconds of the minute in which the training of each machine waited for a core."""
    lengths = seconds_by_worker(step)
    return {
        worker: round(sum(t.summary.mean or 0.0 for t in found) / 100 * lengths.get(worker, 0.0), 3)
        for worker, found in by_worker(step.tensors["taken"]).items()
    }
