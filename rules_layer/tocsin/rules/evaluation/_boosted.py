"""Judges evaluations of boosted trees, round by round."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import classify_loss, select_losses
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import MOST_SERIES, points
from tocsin.rules._verdicts import (
    HEALTHY,
    UNDECIDED,
    measured,
    not_applicable,
    violation,
    worst_verdict,
)
from tocsin.rules._window import rounded

_BETTER = 0.02  # of the loss after the first round: evaluations must improve by more
_SOON = 5  # rounds, until the first save
_SINCE = 10  # rounds without an improvement
_SINCE_ERRORS = 30  # the same for error rates, which fall in steps
_ERRORS = re.compile(r"error(?![a-z])")
_AT_ALL = 100  # rounds after which even a slow model has improved
_TRAINED = ""  # no loss has this name
_BY_HEART = 0.1  # of the first loss: training memorises below it, evaluations must improve by it
_FAR = 5.0  # times the training loss of the first round, when the model is almost constant
_SLOWLY = 0.3  # of the first loss: the limit for training that improves slowly

TREES = Read(roles=(Role.FEATURE_IMPORTANCE,), kinds=("weight",), fields=("size",))
"""Reads what only boosted trees have; other rules read it, too."""


def judge_boosted(state: State, step: Step) -> tuple[State, Verdict]:
    """Return a violation if no round of an evaluation is better than the first one by 2 %.

    That is so ten rounds after the best one (thirty for a share of errors), or after a hundred, and
    for all losses of the evaluation. The first round has a tree that is scaled down, and mostly the
    best constant beneath it. Where the same loss of training has fallen to a tenth, evaluations
    must have won a tenth; a share of errors becomes 0 too easily for that. Where the evaluation's
    loss was five times that of training after the first round, and stays there, other labels than
    those of training are evaluated.

    The state has of each evaluation's loss that after the first round seen, the lowest, and the
    rounds at these; of those of training the first, the last, and whether it fell fast (1.0).
    """
    losses, _ = with_level(select_losses(step.tensors["losses"], ()), named=False)
    trained: dict[str, tuple[float, ...]] = dict(state.get(_TRAINED, {}))
    state, now = {**state, _TRAINED: trained}, step.mode_step
    sets: dict[str, list[Verdict]] = {}
    for point in points(step, losses, None):
        name, cost = point.tensor.name, rounded(point.cost)
        evaluates, loss = classify_loss(step.mode, point.tensor)
        if not evaluates and cost is not None and loss in trained:
            begun, _, fast = trained[loss]
            soon = now <= _SOON + _SINCE and cost < _SLOWLY * begun
            trained[loss] = (begun, max(cost, 0.0), max(fast, float(soon)))
        if cost is None or not cost > 0:
            continue
        if not evaluates and loss not in trained and len(trained) < MOST_SERIES:
            trained[loss] = (cost, cost, 0.0)
        if not evaluates:
            continue
        if name not in state and (len(state) > MOST_SERIES or now > _SOON):
            continue
        first, low, since, at = state.get(name, (cost, cost, now, now))
        low, at = (cost, now) if cost < low else (low, at)
        state[name] = (first, low, since, at)
        verdict = _by_heart(point.tensor, first, low, now - at, trained.get(loss))
        verdict = verdict or _other_labels(point.tensor, first, low, now - since, trained.get(loss))
        verdict = verdict or _verdict(point.tensor, first, low, now - since, now - at)
        sets.setdefault(name.removesuffix(loss), []).append(verdict)
    if not sets:
        why = "no evaluation loss from the first round on"
        return state, not_applicable(Reason.NO_TENSOR, why)
    # A share of errors may stay while the loss of the same set falls.
    return state, worst_verdict(map(_best, sets.values()))


def _by_heart(
    tensor: Tensor, first: float, low: float, waited: int, trained: tuple[float, ...] | None
) -> Verdict | None:
    """Report trees that memorise the training rows and learn little else."""
    won = (first - low) / first
    if trained is None or _ERRORS.search(tensor.name):
        return None
    begun, now, _ = trained
    if won > _BY_HEART or now > _BY_HEART * begun or waited < _SINCE:
        return None
    detail = (
        f"{tensor.name} was {first:.3g} after the first round and never below {low:.3g}, while "
        f"training loss fell from {begun:.3g} to {now:.3g}: the trees memorise the training rows"
    )
    evidence: dict[str, Any] = {"first": first, "lowest": low, "trained": now}
    found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
    return measured(found, won, _BY_HEART, "below", "won")


def _other_labels(
    tensor: Tensor, first: float, low: float, rounds: int, trained: tuple[float, ...] | None
) -> Verdict | None:
    """Report an evaluation that starts far above training: its labels differ. Ignores error rates,
    whose first round is not a constant, and losses that fall."""
    if trained is None or rounds < _SINCE or _ERRORS.search(tensor.name):
        return None
    begun, _, fast = trained
    if fast or low < _FAR * begun or low < (1 - _BY_HEART) * first:
        return None
    detail = (
        f"{tensor.name} was {first:.3g} after the first round, training loss {begun:.3g}: an "
        f"untrained model should have similar losses (lowest since: {low:.3g})"
    )
    found = violation(Reason.DIFFERENT, detail, tensor, first=first, trained=begun)
    return measured(found, low / begun, _FAR, name="ratio")


def _best(verdicts: Sequence[Verdict]) -> Verdict:
    return next((each for each in verdicts if not each.violation), verdicts[0])


def _verdict(tensor: Tensor, first: float, low: float, rounds: int, waited: int) -> Verdict:
    won = (first - low) / first if first else math.inf
    healthy = measured(HEALTHY, won, _BETTER, "below")
    since = _SINCE_ERRORS if _ERRORS.search(tensor.name) else _SINCE
    if won > _BETTER or (waited < since and rounds < _AT_ALL):
        return healthy if won > _BETTER else UNDECIDED
    detail = (
        f"{tensor.name} was {first:.3g} after the first round and never below {low:.3g} in "
        f"{rounds} rounds: the trees do not generalise"
    )
    evidence: dict[str, Any] = {"first": first, "lowest": low, "rounds": rounds}
    found = violation(Reason.ABOVE_THRESHOLD, detail, tensor, **evidence)
    return measured(found, won, _BETTER, "below", "won")
