from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, SAGEMAKER, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation, worst_verdict
from tocsin.rules.machine._durations import Counts, counted, is_measured, outliers, together
from tocsin.rules.machine._machine import durations, none_of, timed

_ENOUGH = 100  # steps
_RATIO = 1.5  # smallest duration of an outlier, in medians
_MOST_WORKERS = 48  # more are left out, so that the state stays small
_MOST_BINS = 400  # of a worker


@register
@dataclass(frozen=True)
class StepOutlier(Rule):
    """Some steps take far longer than the others.

    Amazon's rule, for existing configurations; StepTimeOutlier judges the last minutes, and ignores
    delays that other programs on the machine cause. Fires if more than ``n_outliers`` of more than
    100 training steps of a machine take longer than the median plus ``stddev`` standard deviations,
    and than 1.5 medians. The deviation is estimated by the median absolute deviation; Amazon's rule
    took mean and standard deviation, which outliers raise: once a tenth of the steps was slow, none
    was an outlier.

    Parameters
    ----------
    stddev: least distance from the median, in standard deviations.
    mode: accepted for compatibility, and has no effect: training steps are judged.
    n_outliers: largest number of such steps.

    Example: of 200 steps 20 take 1 s, and the others 0.1 s.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = (SAGEMAKER,)
    causes: ClassVar[str] = (
        "Python's garbage collector, a log or model checkpoint that is written in the step, a "
        "lock, another process on the machine, or inputs of very different sizes."
    )
    advice: ClassVar[str] = (
        "Look at what happens at these steps: write logs and checkpoints in the background, call "
        "gc.freeze() or gc.disable() in the loop, and group inputs by size."
    )

    stddev: Annotated[float, Meta(ge=0)] = 3.0
    mode: str | None = None
    n_outliers: Annotated[int, Meta(ge=0)] = 10

    def reads(self) -> Reads:
        return Reads({"steps": durations("step", values=True)})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        steps = [tensor for tensor in timed(step) if is_measured(tensor)]
        if not steps:
            return state, none_of("timed step")
        found: dict[str, Counts] = dict(state)
        verdicts: list[Verdict] = []
        for tensor in steps:
            worker = tensor.worker
            if worker not in found and len(found) >= _MOST_WORKERS:
                continue
            found[worker] = together([_counts(found.get(worker)), counted(tensor)], _MOST_BINS)
            if sum(found[worker].values()) <= _ENOUGH:
                continue
            known = outliers(found[worker], self.stddev, _RATIO)
            verdict = HEALTHY
            if known.slow > self.n_outliers:
                detail = (
                    f"{known.slow} of {known.steps} steps on {worker} took far longer than "
                    f"{known.median:.3g} s, up to {known.worst:.3g} s"
                )
                evidence = {"outliers": known.slow, "steps": known.steps}
                times = {"median": known.median, "worst": known.worst}
                verdict = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence, **times)
            verdicts.append(measured(verdict, known.slow, self.n_outliers))
        return found, worst_verdict(verdicts) if verdicts else UNDECIDED


def _counts(kept: Mapping[str, int] | None) -> Counts:
    return {} if kept is None else kept
