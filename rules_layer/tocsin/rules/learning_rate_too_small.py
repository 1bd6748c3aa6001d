"""LearningRateTooSmall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import (
    HEALTHY,
    UNDECIDED,
    Meta,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    register,
    violation,
)
from tocsin.rules._updates import READS, Update, known, latest_update, missing, total_loss, typical

_ENOUGH = 6  # updates of a good length: the learning rate is not too small throughout
_WINDOW = 5  # saves of which a level is the median
_STEADY = 1.6  # a pace that changed by less than this factor is neither warm-up nor decay


@register
@dataclass(frozen=True)
class LearningRateTooSmall(Rule):
    """The weights move too little for the loss to fall: the learning rate is too small.

    To first order a step lowers the loss by at most |g| |Δw|, gradient times update, summed over
    all weights. Fires after ``saves`` saves when that was less than ``threshold`` of the loss in
    nearly all of them, from the start on, though gradients do not vanish, and the loss did not fall
    by ``fallen_percent`` %.

    A rate that decays, or starts again, after updates of a good length is never judged, nor is
    one that still warms up (|Δw| / |g| grows). Where the gradient cannot change the loss
    (|g| |w| below ``sensitivity`` of it) a longer step would not help: VanishingGradient judges
    that. Weights that do not move at all are left to FrozenParameters. Compares updates with
    gradients, as Rauschmayr et al., Amazon SageMaker Debugger (MLSys 2021), table 1, and with the
    loss.

    Parameters
    ----------
    threshold: fraction of the loss that one step's update could take away.
    sensitivity: least |g| |w| / loss at which gradients do not count as vanishing.
    fallen_percent: % of its first value by which a loss must have fallen to count as falling.
    saves: how many updates are needed.

    Example: stochastic gradient descent at a rate of 0.0001 in place of 0.1.
    """

    causes: ClassVar[str] = (
        "The learning rate is orders of magnitude too low: a wrong unit or exponent, a schedule "
        "that decays per step instead of per epoch, or a rate divided by the number of workers."
    )
    advice: ClassVar[str] = (
        "Raise the learning rate tenfold, and again, until the loss falls; or sweep it over a few "
        "hundred steps. Look at what the schedule really sets."
    )

    threshold: Annotated[float, Meta(gt=0)] = 1e-4
    sensitivity: Annotated[float, Meta(ge=0)] = 0.5
    fallen_percent: Annotated[float, Meta(gt=0, le=100)] = 10.0
    saves: Annotated[int, Meta(ge=2 * _WINDOW)] = 20

    def reads(self) -> Reads:
        return READS

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if lacking := missing(step):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        loss, update = known(total_loss(step)), latest_update(step, state.get("at"))
        state = {**state, "at": step.mode_step}
        if loss is None or update is None or not self._tells(update, loss):
            return state, UNDECIDED
        gain = update.gain(loss, update.steps)
        seen, fast = state.get("seen", 0) + 1, state.get("fast", 0) + (gain >= self.threshold)
        pace = known(update.distance / update.steps / update.gradient)
        early = seen <= _WINDOW
        state |= {
            "seen": seen,
            "fast": fast,
            "first": [*state.get("first", []), loss] if early else state["first"],
            "losses": [*state.get("losses", []), loss][-_WINDOW:],
            "paces": [*state.get("paces", []), pace][-_WINDOW:],
        }
        if seen == 2 * _WINDOW:
            state["pace"] = state["paces"]
        if fast >= _ENOUGH:
            return state, HEALTHY
        if seen < self.saves or not _steady(state["pace"], state["paces"]):
            return state, UNDECIDED
        first, last = typical(state["first"]), typical(state["losses"])
        if first - last >= abs(first) * self.fallen_percent / 100:
            return state, HEALTHY
        detail = (
            f"in {seen} saves the loss went from {first:.3g} to {last:.3g}, and a step can take "
            f"away no more than {gain:.2g} of it; in {update.steps} steps {update.weight.name} "
            f"moved by {update.relative:.2g} of its size"
        )
        evidence = {"gain": gain, "threshold": self.threshold, "relative_update": update.relative}
        return state, violation(Reason.CHANGED_TOO_LITTLE, detail, update.weight, **evidence)

    def _tells(self, update: Update, loss: float) -> bool:
        """Whether there is an update, and a gradient that can change the loss."""
        bearing = update.gradient * update.size >= self.sensitivity * abs(loss)
        return update.distance > 0 and update.gradient > 0 and bearing


def _steady(before: Sequence[float | None], now: Sequence[float | None]) -> bool:
    """Whether updates are about as long as before, in units of their gradients."""
    old, new = typical(before), typical(now)
    return old <= new * _STEADY and new <= old * _STEADY
