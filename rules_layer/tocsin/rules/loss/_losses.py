"""Reads and judges the training losses that a rule follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tocsin.model import Reason, Verdict
from tocsin.rules._curve import Memory
from tocsin.rules._kinds import with_level, without_level
from tocsin.rules._rule import Reads, State, Step, Tensor
from tocsin.rules._series import LOSSES, TRAINING, Direction, Point, points
from tocsin.rules._spikes import LOSSES_BETWEEN, with_spikes, without_spikes
from tocsin.rules._verdicts import not_applicable, violation, worst_verdict
from tocsin.rules._window import tracked

NOT_FINITE = 3  # consecutive saves: such a loss does not recover

Remember = Callable[[Memory, float], Memory]
"""Adds a cost to the memory of its series."""

Judge = Callable[[State, State, Point], Verdict]
"""Gets the states before and after this step: memories by the keys of points."""


class LossRule(Protocol):
    """The parameters of a rule that follows losses, or tensors that a user names instead."""

    @property
    def collection_names(self) -> tuple[str, ...]: ...

    @property
    def tensor_regex(self) -> tuple[str, ...]: ...

    @property
    def direction(self) -> Direction | None: ...


class SpikeRule(LossRule, Protocol):
    """The parameters of a rule that also judges how many of all steps have a spike."""

    @property
    def share(self) -> float: ...


def loss_reads(rule: LossRule, *, between: bool = False) -> Reads:
    """Return what a rule on losses reads; ``between``: of the steps between saves, too, unless a
    user names other tensors."""
    losses = {"losses": LOSSES.explicitly(rule.collection_names, rule.tensor_regex)}
    named = bool(rule.collection_names or rule.tensor_regex)
    return Reads(losses | {"between": LOSSES_BETWEEN} if between and not named else losses)


def losses_with_level(rule: LossRule, step: Step) -> tuple[tuple[Tensor, ...], str]:
    """Return the losses whose value shows progress, and the reason why there are none."""
    named = bool(rule.collection_names or rule.tensor_regex)
    found, kinds = with_level(step.tensors["losses"], named=named)
    if found or not kinds:
        return found, "no loss whose value is known"
    return found, without_level(kinds)


def judge_losses(
    rule: LossRule, state: State, step: Step, remember: Remember, judge: Judge
) -> tuple[State, Verdict]:
    """Judge each loss of a training step, and return the worst verdict."""
    losses, why = losses_with_level(rule, step)
    return judge_series(state, step, losses, remember, judge, rule.direction, why)


def judge_all_losses(
    rule: SpikeRule, state: State, step: Step, remember: Remember, judge: Judge
) -> tuple[State, Verdict]:
    """Judge each loss of a training step, and how many of all steps have a spike."""
    saves, verdict = judge_losses(rule, without_spikes(state), step, remember, judge)
    after, spikes = with_spikes(state, saves, step)
    if spikes is None or verdict.violation:
        return after, verdict
    return after, spikes.verdict(rule.share, "a loss far above all before") or verdict


def judge_series(
    state: State,
    step: Step,
    tensors: Iterable[Tensor],
    remember: Remember,
    judge: Judge,
    direction: Direction | None,
    why: str,
) -> tuple[State, Verdict]:
    """Judge each scalar of a training step, and return the worst verdict.

    ``why`` says for people why there is no scalar to judge.
    """
    if step.mode not in TRAINING:
        return state, not_applicable(Reason.NO_TENSOR, f"a step of mode {step.mode.name}")
    here = list(tracked(state, points(step, tensors, direction)))
    if not here:
        return state, not_applicable(Reason.NO_TENSOR, why)
    new = {point.key: remember(state.get(point.key, {}), point.cost) for point in here}
    after = {**state, **new}
    return after, worst_verdict(judge(state, after, point) for point in here)


def lost_for_good(point: Point) -> Verdict:
    """Say that a loss was not finite for NOT_FINITE saves."""
    detail = f"{point.tensor.name} is {point.value}: not finite for {NOT_FINITE} consecutive saves"
    return violation(Reason.NOT_FINITE, detail, point.tensor, loss=point.value)


def had_reached(point: Point, best: str) -> str:
    """Say what a loss had fallen to before it rose again, or a metric risen to."""
    return f" and had {'risen' if point.rises else 'fallen'} to {best}"
