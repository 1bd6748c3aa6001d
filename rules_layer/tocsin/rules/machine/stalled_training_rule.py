from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Outcome, Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    PROFILES,
    UNDECIDED,
    Meta,
    Read,
    Reads,
    Rule,
    State,
    Step,
    measured,
    not_applicable,
    register,
)

_ENOUGH = 2  # intervals between steps that are needed to know how long one takes


@register
@dataclass(frozen=True)
class StalledTrainingRule(Rule):
    """The training has not saved a new step for a long time.

    Fires when no new step with a selected tensor was saved for ``threshold`` seconds and for
    ``ratio`` times the longest interval between two steps so far; before the second interval, for
    ``ratio`` times the threshold. So a slow model that saves rarely, or pauses for an evaluation,
    does not fire. The rule judges by the times at which the steps were written, so a later check of
    the run gives the same verdict. Profile ``sagemaker`` is Amazon's rule: the threshold alone.
    Amazon's rule stops the job itself; here a stop is an action, which stops the job of the run in
    which the rule fired and no other.

    Parameters
    ----------
    threshold: largest number of seconds without a new step.
    stop_training_on_fire: accepted for compatibility, and has no effect: see above.
    training_job_name_prefix: accepted for compatibility, and has no effect: see above.
    ratio: smallest limit, as a multiple of the longest interval so far.
    collection_names, tensor_regex: which tensors show that the training runs; default: any.

    Example: a step is saved every 10 seconds, and then none for half an hour.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    sagemaker: ClassVar[Mapping[str, Any]] = {"ratio": 0.0}
    causes: ClassVar[str] = (
        "A worker waits for another one that has crashed, or a data loader or the machine hangs."
    )
    advice: ClassVar[str] = (
        "Look at the job's log and at the use of its processors; take a stack trace of the "
        "processes (py-spy dump) before stopping them. If saves are meant to be this rare, raise "
        "the threshold."
    )

    threshold: Annotated[int, Meta(ge=1)] = 1800
    stop_training_on_fire: bool = False
    training_job_name_prefix: str | None = None
    ratio: Annotated[float, Meta(ge=0)] = 5.0
    collection_names: tuple[str, ...] = ()
    tensor_regex: tuple[str, ...] = ()

    def reads(self) -> Reads:
        read = Read().explicitly(self.collection_names, self.tensor_regex)
        return Reads({"tensors": read}, ticks=True)

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if not step.tick and not step.tensors["tensors"]:
            return state, not_applicable(Reason.NO_TENSOR, "a step without such a tensor")
        if "last" not in state:
            begun = step.time if step.waiting_since is None else step.waiting_since
            first = {"last": begun, "longest": 0.0, "intervals": 0}
            if not step.tick:
                return first, UNDECIDED
            pause, limit = step.time - begun, self._limit(first)
            return state, self._stalled(pause, limit) if pause > limit else UNDECIDED
        pause = max(0.0, step.time - state["last"])
        limit = self._limit(state)
        if step.tick:
            return state, self._stalled(pause, limit) if pause > limit else UNDECIDED
        if self.ratio and state["intervals"] < _ENOUGH:  # the step shows how long one takes
            limit = max(limit, pause)
        state = {
            "last": max(step.time, state["last"]),
            "longest": max(pause, state["longest"]),
            "intervals": min(state["intervals"] + 1, _ENOUGH),
        }
        return state, self._stalled(pause, limit) if pause > limit else measured(
            HEALTHY, pause, limit
        )

    def _limit(self, state: State) -> float:
        known = state["intervals"] >= _ENOUGH
        return max(self.threshold, self.ratio * (state["longest"] if known else self.threshold))

    def _stalled(self, pause: float, limit: float) -> Verdict:
        detail = f"no new step has been saved for {_text(pause)}; the limit is {_text(limit)}"
        evidence = {"seconds": pause, "limit": limit}
        found = Verdict(Outcome.VIOLATION, Reason.LATE, detail, evidence=evidence)
        return measured(found, pause, limit)


def _text(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
