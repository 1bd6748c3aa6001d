"""LearningRateTooLarge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

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

_WINDOW = 5  # saves of whose losses the median is taken


@register
@dataclass(frozen=True)
class LearningRateTooLarge(Rule):
    """The weights change erratically and the loss does not fall: the learning rate is too large.

    An update is too long if it is a large part of the weights themselves (the median over them
    of |Δw| / |w| is at least ``threshold``) and overshoots: to first order it would lower the
    loss by |g| |Δw|, and that is ``overshoot`` times the loss or more. Both are for one step: for n
    steps between two saves |Δw| is divided by √n, as such steps undo each other. Fires when
    that has happened, even once (afterwards units are often dead and nothing moves), and the loss,
    the median of five saves, has not fallen by ``fallen_percent`` % of its first value: ten saves
    in a row, as the loss of one batch may be low by chance. Weights that move fast while the loss
    falls are not judged. A loss that is not finite counts as one that has not fallen;
    ExplodingTensor reports it.

    Parameters
    ----------
    threshold: fraction of the weights' size by which one step moves them.
    overshoot: how many times the loss one step's update would take away, to first order.
    fallen_percent: % of its first value by which a loss must have fallen to count as falling.

    Example: stochastic gradient descent at a rate of 10 in place of 0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 10}
    causes: ClassVar[str] = (
        "The learning rate is larger than the curvature of the loss allows: each step overshoots "
        "by more than it gains. A missing warm-up, a sum of losses in place of a mean, or inputs "
        "that are not normalised have the same effect."
    )
    advice: ClassVar[str] = (
        "Divide the learning rate by ten, and again, until the loss falls; warm it up, clip "
        "gradients, normalise inputs."
    )

    threshold: Annotated[float, Meta(gt=0)] = 0.07
    overshoot: Annotated[float, Meta(gt=0)] = 2.0
    fallen_percent: Annotated[float, Meta(gt=0, le=100)] = 10.0

    def reads(self) -> Reads:
        return READS

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if lacking := missing(step):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        loss, update = known(total_loss(step)), latest_update(step, state.get("at"))
        first = loss if state.get("first") is None else state["first"]
        state = {
            **state,
            "at": step.mode_step,
            "first": first,
            "losses": [*state.get("losses", []), loss][-_WINDOW:],
        }
        if update is not None and first is not None and self._too_long(update, first, loss):
            relative = known(update.relative / math.sqrt(update.steps))
            state |= {"thrown": max(relative or 0.0, state.get("thrown", 0.0))}
        if len(state["losses"]) < _WINDOW or first is None:
            return state, UNDECIDED
        last = typical(state["losses"])
        if "thrown" not in state or last <= first - abs(first) * self.fallen_percent / 100:
            return state, HEALTHY
        weight = update.weight if update is not None else step.tensors["weights"][0]
        detail = (
            f"a step moved the weights by {state['thrown']:.2g} of their size, such as"
            f" {weight.name}, and the loss went from {first:.3g} to {last:.3g}"
        )
        evidence = {"relative_update": state["thrown"], "loss": last, "first_loss": first}
        return state, violation(Reason.CHANGED_TOO_MUCH, detail, weight, **evidence)

    def _too_long(self, update: Update, first: float, loss: float | None) -> bool:
        steps = math.sqrt(update.steps)
        largest = max(abs(first), abs(loss or 0.0))
        return (
            update.relative / steps >= self.threshold
            and update.gain(largest, steps) >= self.overshoot
        )
