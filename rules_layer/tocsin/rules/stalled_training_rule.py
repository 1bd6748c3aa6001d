"""StalledTrainingRule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    RECOMMENDED,
    SAGEMAKER,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
)

_ENOUGH = 2  # intervals between steps before they say how long one takes


@register
@dataclass(frozen=True)
class StalledTrainingRule(Rule):
    """The training has not come forward for a long time.

    Fires when no new step with a selected tensor was written for ``threshold`` seconds, and for
    ``ratio`` times the longest interval between two steps so far: a slow model that saves rarely,
    or pauses for an evaluation, is not a stalled one. Before there have been two intervals the
    limit is ``ratio`` times the threshold. Judged by the passing of time, and by the times at
    which the steps were written, so that a run looked at afterwards gives the same verdict.
    Profile ``sagemaker`` is Amazon's rule: the threshold alone.

    Amazon's rule stops the job itself. Here a stop is an action: give the rule the action
    ``stop``. It stops the job of the run in which the rule fired, never another one that
    a prefix happens to match.

    Parameters
    ----------
    threshold: seconds without a new step, above 0.
    stop_training_on_fire: accepted for compatibility, and has no effect: see above.
    training_job_name_prefix: accepted for compatibility, and has no effect: see above.
    ratio: how many times the longest interval so far a stall must be, at least 0.
    collection_names, tensor_regex: which tensors are signs of life; default: any.

    Example: a step every 10 seconds, and then none for half an hour.
    """

    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED, SAGEMAKER)
    sagemaker: ClassVar[Mapping[str, Any]] = {"ratio": 0.0}
    causes: ClassVar[str] = (
        "A worker waits for another that is gone, a data loader hangs, or the machine is."
    )
    advice: ClassVar[str] = (
        "Look at the job's log and at the use of its processors; take a stack trace of the "
        "processes (py-spy dump) before stopping them. If saves are meant to be this rare, raise "
        "the threshold."
    )

    threshold: int = 1800
    stop_training_on_fire: bool = False
    training_job_name_prefix: str | None = None
    ratio: float = 5.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.threshold < 1:
            raise ValueError(f"threshold is {self.threshold}, but must be at least 1 second")
        if not 0 <= self.ratio < math.inf:
            raise ValueError(f"ratio is {self.ratio}, but must be a number of at least 0")

    def reads(self) -> Reads:
        read = Read().explicitly(self.collection_names, self.tensor_regex)
        return Reads({"tensors": read}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not step.tick and not step.tensors["tensors"]:
            return state, not_applicable(Reason.NO_TENSOR, "a step without such a tensor")
        if "last" not in state:
            alive = {"last": step.time, "longest": 0.0, "intervals": 0}
            return state if step.tick else alive, UNDECIDED
        pause = max(0.0, step.time - state["last"])
        limit = self._limit(state)
        if step.tick:
            return state, self._stalled(pause, limit) if pause > limit else UNDECIDED
        state = {
            "last": max(step.time, state["last"]),
            "longest": max(pause, state["longest"]),
            "intervals": min(state["intervals"] + 1, _ENOUGH),
        }
        return state, self._stalled(pause, limit) if pause > limit else HEALTHY

    def _limit(self, state: State) -> float:
        known = state["intervals"] >= _ENOUGH
        return max(self.threshold, self.ratio * (state["longest"] if known else self.threshold))

    def _stalled(self, pause: float, limit: float) -> Verdict:
        detail = f"no new step for {pause:.0f} s, where up to {limit:.0f} s are allowed"
        evidence = {"seconds": pause, "limit": limit}
        return Verdict(Outcome.VIOLATION, Reason.LATE, detail, evidence=evidence)
