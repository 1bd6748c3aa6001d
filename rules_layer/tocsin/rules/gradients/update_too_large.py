from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.gradients._updates import RATE_READS, followed, missing_inputs, rate_to_try


@register
@dataclass(frozen=True)
class UpdateTooLarge(Rule):
    """Updates overshoot: steps are far larger than the loss allows, and the loss does not improve.

    To first order, a step reduces the loss by at most |g| |Δw|, gradient times update. Fires when
    that is more than ``overshoot`` times the loss, or times the range of all losses so far if that
    is larger. This must hold in ``saves`` consecutive saves, none of which has the best loss so
    far. For n steps between two saves, |Δw| is divided by √n, since such steps partly cancel.

    Parameters
    ----------
    overshoot: smallest first-order loss reduction of one step, as a multiple of the loss.
    saves: number of consecutive saves with large updates.

    Example: the learning rate jumps by a factor of 1000 at half-time.
    """

    options: ClassVar[Mapping[str, Any]] = {"resolve": 5}
    causes: ClassVar[str] = (
        "The learning rate is or became larger than the curvature of the loss allows, or gradients"
        " are not cleared and add up from step to step."
    )
    advice: ClassVar[str] = (
        "Divide the learning rate by ten, clip gradients (clip_grad_norm_ in PyTorch, clipnorm in "
        "Keras), and in a loop of your own call zero_grad once for each update."
    )

    overshoot: Annotated[float, Meta(gt=0)] = 3.0
    saves: Annotated[int, Meta(ge=1)] = 5

    def reads(self) -> Reads:
        return RATE_READS

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if lacking := missing_inputs(step):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        state, update, loss = followed(state, step)
        if loss is None:
            return state, UNDECIDED
        least, most = min(state.get("least", loss), loss), max(state.get("most", loss), loss)
        best = loss < state.get("least", loss)
        state |= {"least": least, "most": most}
        size = max(abs(loss), most - least)
        if update is None or not size:
            return state, UNDECIDED
        gain = update.gain(size, math.sqrt(update.steps))
        large = gain > self.overshoot and not best
        count = state.get("large", 0) + 1 if large else 0
        state |= {"large": count}
        if count < self.saves:
            return state, measured(HEALTHY, gain, self.overshoot)
        detail = (
            f"one step overshoots: to first order it would reduce the loss by {gain:.3g} times its "
            f"value, in {count} consecutive saves; the loss is {loss:.3g}, its best was {least:.3g}"
            f"{rate_to_try(step, gain)}"
        )
        evidence = {"gain": gain, "limit": self.overshoot, "loss": loss}
        found = violation(Reason.CHANGED_TOO_MUCH, detail, update.weight, **evidence)
        return state, measured(found, gain, self.overshoot)
