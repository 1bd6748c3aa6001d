from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._curve import Curve
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules._window import level, rounded
from tocsin.rules.gradients._updates import (
    RATE_READS,
    Update,
    followed,
    missing_inputs,
    rate_to_try,
)

_ENOUGH = 6  # number of large updates after which the rate is not too small
_WINDOW = 5  # number of saves whose median is the level
_STEADY = 1.6  # a pace that changed by less than this factor is neither warm-up nor decay


@register
@dataclass(frozen=True)
class LearningRateTooSmall(Rule):
    """The weights change too little for the loss to fall: the learning rate is too small.

    To first order, a step reduces the loss by at most |g| |Δw|, gradient times update, over all
    weights. Fires after ``saves`` saves when nearly all of them, from the start on, stayed below
    the fraction ``threshold`` of the loss, and the loss has not fallen by ``fallen_percent`` %, nor
    by 2 % and three times its noise. Ignores runs that had large enough updates before, since the
    rate may have decayed; warm-up, in which |Δw| / |g| grows; and losses whose value does not show
    progress (reinforcement, adversarial, metric, ranking, self-supervised). If |g| |w| is below the
    fraction ``sensitivity`` of the loss, a larger step would not help: see VanishingGradient. The
    comparison is that of Rauschmayr et al., Amazon SageMaker Debugger (MLSys 2021), table 1.

    Parameters
    ----------
    threshold: largest share of the loss that one step can remove when the rate is too small.
    sensitivity: gradients vanish if |g| |w| / loss is below this.
    fallen_percent: a loss has fallen if it is below its first value by this %.
    saves: smallest number of updates for a verdict.

    Example: stochastic gradient descent at a rate of 0.0001 instead of 0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 5}
    causes: ClassVar[str] = (
        "The learning rate is orders of magnitude too low: a wrong unit or exponent, a schedule "
        "that decays per step instead of per epoch, or a rate divided by the number of workers."
    )
    advice: ClassVar[str] = (
        "Multiply the learning rate by ten until the loss falls, or sweep it over a few hundred "
        "steps. Check which value the schedule really sets."
    )

    threshold: Annotated[float, Meta(gt=0)] = 1e-4
    sensitivity: Annotated[float, Meta(ge=0)] = 0.5
    fallen_percent: Annotated[float, Meta(gt=0, le=100)] = 10.0
    saves: Annotated[int, Meta(ge=2 * _WINDOW)] = 20

    def reads(self) -> Reads:
        return RATE_READS

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if lacking := missing_inputs(step, level=True):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        state, update, loss = followed(state, step, 5)
        if loss is None or update is None or not self._can_judge(update, loss):
            return state, UNDECIDED
        gain = update.gain(loss, update.steps)
        seen, fast = state.get("seen", 0) + 1, state.get("fast", 0) + (gain >= self.threshold)
        pace = rounded((update.pace or 0.0) / update.steps, 5)
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
        healthy = measured(HEALTHY, gain, self.threshold, "below")
        if fast >= _ENOUGH:
            return state, healthy
        if seen < self.saves or not _steady(state["pace"], state["paces"]):
            return state, UNDECIDED
        first, last = level(state["first"]), level(state["losses"])
        fell = first - last >= abs(first) * self.fallen_percent / 100
        if fell or Curve(state["first"], state["losses"]).left_its_start:
            return state, healthy
        detail = (
            f"in {seen} saves the loss went from {first:.3g} to {last:.3g}; one step reduces it by "
            f"at most {gain:.2g} of its value; {update.weight.name} changed by "
            f"{update.relative:.2g} of its size in {update.steps} steps"
            f"{rate_to_try(step, gain * step.mode_step)}"
        )
        evidence = {"gain": gain, "threshold": self.threshold, "relative_update": update.relative}
        found = violation(Reason.CHANGED_TOO_LITTLE, detail, update.weight, **evidence)
        return state, measured(found, gain, self.threshold, "below")

    def _can_judge(self, update: Update, loss: float) -> bool:
        """Return whether there is an update, and a gradient that can change the loss."""
        return update.effect > 0 and update.reach >= self.sensitivity * abs(loss)


def _steady(before: Sequence[float | None], now: Sequence[float | None]) -> bool:
    """Return whether updates are about as large as before, in units of their gradients."""
    old, new = level(before), level(now)
    return old <= new * _STEADY and new <= old * _STEADY
