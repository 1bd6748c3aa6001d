from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import STEPS, median_of, none_of, timed

_WINDOW = 5  # minutes


@register
@dataclass(frozen=True)
class SlowerThanBefore(Rule):
    """Steps take longer than they did before in the same training.

    Takes the median duration of a training step in each minute, and the median of these over five
    minutes. Fires when, in each of five minutes, the smallest five-minute median so far is less
    than ``ratio`` times the minute's median.

    Parameters
    ----------
    ratio: the best duration so far, divided by the current one.

    Example: steps took 0.20 s at best, and now take 0.27 s (0.74) in five minutes.
    """

    about: ClassVar[str] = MACHINE
    options: ClassVar[dict[str, Any]] = {"for_steps": 5}
    causes: ClassVar[str] = (
        "Another job on the machine, a GPU that is slowed down, memory that is swapped, a list or "
        "a log that grows, or larger inputs on purpose (longer sequences, larger images)."
    )
    advice: ClassVar[str] = (
        "Compare what the machine does now with its minutes before: utilization, clocks, memory. "
        "If inputs grow on purpose, lower the ratio."
    )

    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.75

    def reads(self) -> Reads:
        return Reads({"steps": STEPS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not timed(step):
            return state, none_of("timed step")
        known = {
            tensor.worker: middle
            for tensor in step.tensors["steps"]
            if (middle := median_of(tensor)) is not None
        }
        if not known:
            return state, UNDECIDED
        now = median(known.values())
        best = state.get("best")
        last = [*state.get("last", ()), now][-_WINDOW:]
        state = {"last": last, "best": best}
        if len(last) == _WINDOW:
            state["best"] = min(median(last), best if best is not None else float("inf"))
        if best is None:
            return state, UNDECIDED
        ratio = best / now if now > 0 else math.inf
        if ratio >= self.ratio:
            return state, measured(HEALTHY, ratio, self.ratio, "below")
        tensor = step.tensors["steps"][0]
        detail = f"a step takes {now:.3g} s; it took {best:.3g} s before"
        evidence = {"ratio": round(ratio, 3), "seconds": now, "before": best}
        found = violation(Reason.CHANGED_TOO_MUCH, detail, tensor, **evidence)
        return state, measured(found, ratio, self.ratio, "below")
