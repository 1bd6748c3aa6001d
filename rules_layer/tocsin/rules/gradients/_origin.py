"""Finds the origin of the first loss that is not finite: updates, the loss itself or the data."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tocsin.model import Role
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import LOSSES, TRAINING, points
from tocsin.rules._window import rounded
from tocsin.rules.data._non_finite import is_finite

ORIGIN_READS = {
    "losses": LOSSES,
    "between": Read(roles=(Role.INTERVAL,), kinds=("loss",), fields=("max", "posinf")),
    "rates": Read(roles=(Role.LEARNING_RATE,), fields=("mean",)),
}
"""Reads the losses of saves, those of all steps between, and the learning rate."""

_RISE = 10.0  # times the smallest loss before: the training diverged
_NOT_BEFORE_THE_LOSS = (
    *(Role.LOSS, Role.OBJECTIVE, Role.METRIC, Role.GRADIENT),
    *(Role.SKILL, Role.INTERVAL, Role.SPREAD),
)
"""They are computed from the loss, or beside it."""


def with_losses(state: State, step: Step) -> State:
    """Return the state with the smallest and the last training loss that was finite, and the
    learning rate, which evaluations do not have."""
    losses = [each.value for each in points(step, step.tensors.get("losses", ()), "falls")]
    if step.mode not in TRAINING or not losses or not all(map(math.isfinite, losses)):
        return state
    last = rounded(abs(sum(losses))) or 0.0
    rates = [each.summary.mean for each in step.tensors.get("rates", ()) if each.summary.mean]
    rate = {"rate": rounded(max(rates), 3)} if rates else {}
    return {**state, **rate, "least": min(last, state.get("least", last)), "last": last}


def origin(state: State, step: Step) -> str:
    """Describe the origin of a loss that is not finite, from earlier losses, the weights and the
    data; empty if unknown.
    """
    tensors = step.tensors["tensors"]
    data = [each for each in tensors if each.role in (Role.INPUT, Role.LABEL)]
    weights = [each for each in tensors if each.role is Role.WEIGHT]
    if not _are_finite(data):
        return ""
    if step.mode not in TRAINING:
        return _in_evaluation(state)
    if (risen := _rise(state, step)) or not weights:
        return risen
    if not _are_finite(weights):
        return "; the weights are not finite either: an earlier gradient or batch was not" + (
            f", though the loss was {state['last']:.3g}" if "last" in state else ""
        )
    if _are_finite(each for each in tensors if each.role not in _NOT_BEFORE_THE_LOSS):
        return (
            "; all that was captured before it is finite, weights included: look for a division "
            "by 0, a root, a logarithm or an overflow in the loss"
        )
    return ""


def _rise(state: State, step: Step) -> str:
    """Describe the rise of the loss before it was not finite; empty if the rise was small."""
    if "least" not in state:
        return ""
    between = [each.summary for each in step.tensors.get("between", ())]
    peak = max([state["last"], *(each.max or 0.0 for each in between)])
    rate = _rate(state)
    if peak > 0 and peak >= _RISE * state["least"]:
        rose = f"; before that, the loss rose from {state['least']:.3g} to {peak:.3g}"
        return f"{rose}: {rate} is too large"
    if any(each.posinf for each in between):
        jumped = f"; the loss jumped from {state['last']:.3g} to infinity in one step"
        return f"{jumped}: it overflows or takes a logarithm of 0, or {rate} is far too large"
    return ""


def _in_evaluation(state: State) -> str:
    if "last" not in state:
        return ""
    training = f"; the last training loss was {state['last']:.3g}"
    return (
        f"{training}: later updates diverged because {_rate(state)} is too large, or the "
        "evaluation itself overflows or divides by 0"
    )


def _rate(state: State) -> str:
    return f"the learning rate of {state['rate']:.3g}" if "rate" in state else "the learning rate"


def _are_finite(tensors: Iterable[Tensor]) -> bool:
    """Return whether all tensors whose values are known are finite."""
    return all(each.summary.nan is None or is_finite(each) for each in tensors)
