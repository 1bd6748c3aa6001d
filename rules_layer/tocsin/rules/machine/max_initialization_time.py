from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import MACHINE, PROFILES, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules.machine._machine import STEPS, none_of, timed, trained


@register
@dataclass(frozen=True)
class MaxInitializationTime(Rule):
    """The training has not completed its first step after a long time.

    Fires when no training step has ended within ``threshold`` minutes of the first minute of the
    run. Once a step has ended, the rule never fires.

    Parameters
    ----------
    threshold: number of minutes in which a first step must end.

    Example: 21 minutes after the start, data is still being downloaded.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = PROFILES
    causes: ClassVar[str] = (
        "Data that is downloaded or indexed before the first step, a compilation, workers that "
        "wait for one that has not started, or a hang."
    )
    advice: ClassVar[str] = (
        "Stream the data or keep a copy near the machine, cache what is compiled, and look at the "
        "log of each worker."
    )

    threshold: Annotated[int, Meta(ge=1)] = 20

    def reads(self) -> Reads:
        return Reads({"steps": STEPS})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not timed(step):
            return state, none_of("timed step")
        if state.get("begun") or trained(step):
            return {"begun": True}, HEALTHY
        first = state.get("first", step.step)
        minutes = step.step - first
        if minutes <= self.threshold:
            return {"first": first}, measured(UNDECIDED, minutes, self.threshold)
        detail = f"no training step has ended in {minutes} minutes"
        tensor = step.tensors["steps"][0]
        found = violation(Reason.LATE, detail, tensor, minutes=minutes, threshold=self.threshold)
        return {"first": first}, measured(found, minutes, self.threshold)
