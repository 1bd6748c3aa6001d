from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import STEPS, durations, known, median_of, none_of, timed


@register
@dataclass(frozen=True)
class StragglingNode(Rule):
    """A machine computes more slowly than the others of the training.

    Compares the median duration of the forward pass in a minute between machines, or of the step
    where forward passes are not timed. Fires when, in each of three minutes, the shortest median is
    less than ``ratio`` times a machine's own. Workers that wait for each other at every step have
    steps of equal length: only their forward passes then show which one is slow. A machine without
    this timing is ignored.

    Parameters
    ----------
    ratio: the shortest median, divided by the machine's own.

    Example: the medians of four machines are 1, 1, 1 and 1.4 s (0.71).
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"for_steps": 3}
    causes: ClassVar[str] = (
        "A GPU that is slowed down or shared, another process on the machine, or a larger part of "
        "the data."
    )
    advice: ClassVar[str] = (
        "Compare its clocks, temperature, processor and network with the others', and replace the "
        "machine: all others wait for it."
    )

    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.75

    def reads(self) -> Reads:
        return Reads({"forward": durations("forward"), "steps": STEPS}, peers=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        timings = known(step.tensors["forward"], "size") or timed(step)
        if not timings:
            return state, none_of("timed step of several machines")
        medians = [
            (middle, t) for t in timings if (middle := median_of(t)) is not None and middle > 0
        ]
        if len(medians) < 2:
            return state, UNDECIDED
        least = min(middle for middle, _ in medians)
        own, slowest = max(medians, key=lambda each: each[0])
        if least / own >= self.ratio:
            return state, measured(HEALTHY, least / own, self.ratio, "below")
        what = "forward pass" if step.tensors["forward"] else "step"
        detail = f"a {what} of {slowest.worker} takes {own:.3g} s; others need {least:.3g} s"
        evidence = {"ratio": round(least / own, 3), "seconds": own, "fastest": least}
        found = violation(Reason.IMBALANCED, detail, slowest, **evidence)
        return state, measured(found, least / own, self.ratio, "below")
