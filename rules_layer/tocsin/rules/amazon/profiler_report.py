from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Verdict
from tocsin.rules import MACHINE, Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY
from tocsin.rules.machine._machine import MINUTE, none_of, seconds_by_worker


@register
@dataclass(frozen=True)
class ProfilerReport(Rule):
    """The report of Amazon's profiler: ``tocsin report`` makes it, and it never fires.

    In ``ProfilerRuleConfigurations`` it stands for the other rules of Amazon's profiler, with their
    parameters as ``RULE_PARAMETER``. On its own it does nothing.

    Amazon's rule ended with IssuesFound if any rule had ever found something, and one failing rule
    broke all of them. Here each rule has a status of its own.

    Parameters
    ----------
    scan_interval_us: accepted for compatibility, and has no effect: rules judge each minute.

    Example: it is silent for any data.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[str] = "It never fires."
    advice: ClassVar[str] = "Read the section about the machine in `tocsin report`."

    scan_interval_us: Annotated[int, Meta(ge=1)] = 60_000_000

    def reads(self) -> Reads:
        return Reads({"minute": MINUTE})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not seconds_by_worker(step):
            return state, none_of("measured time")
        return state, HEALTHY
