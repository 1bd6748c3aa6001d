from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tocsin.model import Verdict
from tocsin.rules import MACHINE, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY
from tocsin.rules.machine._machine import MINUTE, none_of, seconds_by_worker


@register
@dataclass(frozen=True)
class OverallFrameworkMetrics(Rule):
    """The shares of training time: a section of the report, which never fires.

    ``tocsin report`` shows the shares of steps, waiting for data, evaluation and the rest in its
    section about the machine. It is a rule only so that Amazon's configurations can name it.

    Amazon's rule counted nested operators at every level, and its share of ``others`` was about
    half of the true one, or below 0 with several workers. Here the shares of each machine add up to
    1.

    Example: it is silent for any data.
    """

    about: ClassVar[str] = MACHINE
    profiles: ClassVar[tuple[str, ...]] = ()
    causes: ClassVar[str] = "It never fires."
    advice: ClassVar[str] = "Read the section about the machine in `tocsin report`."

    def reads(self) -> Reads:
        return Reads({"minute": MINUTE})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not seconds_by_worker(step):
            return state, none_of("measured time")
        return state, HEALTHY
