from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Role, Verdict
from tocsin.rules import Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._kinds import with_level
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules._window import level, rounded
from tocsin.rules.gradients._updates import (
    RATE_READS,
    Update,
    followed,
    missing_inputs,
    rate_to_try,
    total_norm,
)

_WINDOW = 5  # saves whose median loss is compared
_BLOWN_UP = 10.0  # times its first value: such a loss must fall much further to have recovered
_GROWN = 10.0  # times their first norm, all weights together
_RECOVERED_PERCENT = 50.0  # by which a loss that blew up must have fallen


@register
@dataclass(frozen=True)
class LearningRateTooLarge(Rule):
    """The weights change erratically and the loss does not fall: the learning rate is too large.

    Fires when this holds in ten consecutive saves: at least one update was too large, and the loss
    has not fallen. An update is too large if the median over the weights of |Δw| / |w| is at least
    ``threshold``, and the update overshoots. It does if the first-order loss reduction |g| |Δw| is
    at least ``overshoot`` times the loss, with the larger gradient of both saves, or if the loss is
    then ten times its first value. Both are per step: for n steps between two saves |Δw| is divided
    by √n, since such steps partly cancel. A loss, the median of five saves, has fallen if it is
    ``fallen_percent`` % below its first value, or half of it after a peak of ten times that value.
    Where the value of a loss does not show progress (reinforcement, adversarial, metric, ranking,
    self-supervised), the weights must have grown tenfold instead. ExplodingTensor reports a loss
    that is not finite.

    Parameters
    ----------
    threshold: fraction of the weights' size by which one step changes them.
    overshoot: smallest first-order loss reduction of one step, as a multiple of the loss.
    fallen_percent: a loss has fallen if it is below its first value by this %.

    Example: stochastic gradient descent at a rate of 10 instead of 0.1.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 10, "resolve": 10}
    causes: ClassVar[str] = (
        "The learning rate is larger than the curvature of the loss allows, so each step "
        "overshoots. A missing warm-up, a sum of losses instead of a mean, or inputs that are not "
        "normalised have the same effect."
    )
    advice: ClassVar[str] = (
        "Divide the learning rate by ten until the loss falls. Use warm-up, clip gradients, and "
        "normalise inputs."
    )

    threshold: Annotated[float, Meta(gt=0)] = 0.07
    overshoot: Annotated[float, Meta(gt=0)] = 2.0
    fallen_percent: Annotated[float, Meta(gt=0, le=100)] = 10.0

    def reads(self) -> Reads:
        gradients = Read(roles=(Role.GRADIENT,), fields=("l2",), back=1)
        return replace(RATE_READS, tensors={**RATE_READS.tensors, "gradients": gradients})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        if lacking := missing_inputs(step):
            return state, not_applicable(Reason.NO_TENSOR, lacking)
        state, update, loss = followed(state, step, 5)
        first = loss if state.get("first") is None else state["first"]
        state = {
            **state,
            "first": first,
            "most": max(abs(loss or 0.0), state.get("most", 0.0)),
            "losses": [*state.get("losses", []), loss][-_WINDOW:],
        }
        excess = 0.0 if update is None or first is None else self._excess(update, first, loss)
        if update is not None and excess:
            relative = rounded(update.relative / math.sqrt(update.steps), 5)
            state |= {"thrown": max(relative or 0.0, state.get("thrown", 0.0))}
            state |= {"gain": max(rounded(excess) or 0.0, state.get("gain", 0.0))}
        state |= {"size": state.get("size") or rounded(total_norm(step, "weights"), 5)}
        if len(state["losses"]) < _WINDOW or first is None:
            return state, UNDECIDED
        useless = self._useless(state, step)
        if "thrown" not in state or not useless:
            relative = update.relative / math.sqrt(update.steps) if update else 0.0
            thrown = state.get("thrown", relative)
            return state, measured(HEALTHY, thrown, self.threshold)
        weight = update.weight if update is not None else step.tensors["weights"][0]
        detail = (
            f"one step changed weights such as {weight.name} by {100 * state['thrown']:.0f} % of "
            f"their size, and {useless}{rate_to_try(step, state.get('gain', 0.0))}"
        )
        evidence = {"relative_update": state["thrown"], "first_loss": first}
        evidence["loss"] = level(state["losses"])
        found = violation(Reason.CHANGED_TOO_MUCH, detail, weight, **evidence)
        return state, measured(found, state["thrown"], self.threshold)

    def _useless(self, state: State, step: Step) -> str:
        """Describe why the updates were useless; empty if they were not."""
        if not with_level(step.tensors["losses"], named=False)[0]:
            grown = total_norm(step, "weights") / state["size"] if state["size"] else 1.0
            return f"all weights grew {grown:.3g} times" if grown >= _GROWN else ""
        first, last, percent = state["first"], level(state["losses"]), self.fallen_percent
        if state["most"] >= _BLOWN_UP * abs(first):
            percent = max(percent, _RECOVERED_PERCENT)
        fallen = last <= first - abs(first) * percent / 100
        return "" if fallen else f"the loss went from {first:.3g} to {last:.3g}"

    def _excess(self, update: Update, first: float, loss: float | None) -> float:
        """Return how many times the loss one step removes, to first order; 0 if it is not too
        large. Clipped gradients do not show that: a loss near its minimum grows with the square of
        a step.
        """
        steps, last = math.sqrt(update.steps), loss or 0.0
        if update.relative / steps < self.threshold:
            return 0.0
        gain = update.gain(max(abs(first), abs(last)), steps)
        gain = gain if gain >= self.overshoot else 0.0
        rose = last / first if first > 0 else 0.0
        return max(gain, math.sqrt(rose)) if rose >= _BLOWN_UP else gain
