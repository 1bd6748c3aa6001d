"""Judges evaluation losses against the first training loss, of the untrained model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tocsin.model import Mode, Reason, Verdict
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import select_losses
from tocsin.rules._rule import State, Step
from tocsin.rules._train_eval import FinishedEvaluation, follow_losses
from tocsin.rules._verdicts import HEALTHY, measured, violation, worst_verdict
from tocsin.rules.evaluation._starts import is_known, with_starts

_PATIENCE = 200  # training steps before the first look
_EVALUATIONS = 3  # too
_LOOKS = 2  # in a row
_FELL = 0.5  # of the first loss: the fall that training needs
_LEFT = 0.05  # of the first loss: training has learned almost everything
_NO_BETTER = 0.02  # of the first loss: evaluations that are below it by less are no better
_SKILL = 0.05  # below the start: evaluations have skill
_LOST = 0.2  # of it: they got worse, which is overfitting
_STAYED = 0.5  # of the first evaluation loss, which later ones stay above


def judge_by_start(
    state: State, step: Step, least: float, least_by_heart: float
) -> tuple[State, Verdict]:
    """Return a violation if no evaluation ever had a much lower loss than the first training steps.

    Either the training loss has halved since, and evaluations have won less than ``least`` of that,
    or less than ``least_by_heart`` if hardly any of it is left. Or evaluations are not clearly
    better than that start and get no better, unless the training loss is worse, too: a divergence
    from a prior rises while the model learns. Evaluations that were clearly better than that start
    and got worse overfit, and do not fire. Losses that may be negative are not judged, nor a
    training that was not seen from its start or was evaluated before its third save: a history of
    epochs has no start.

    The state has of each training loss the largest of the first saves, their mean and number, and
    of each validation loss the lowest so far, and the looks in a row that were bad.
    """
    losses, _ = with_level(select_losses(step.tensors["losses"], ()), named=False)
    followed, finished, trained = follow_losses(state.get("losses", {}), step, losses, None)
    starts = with_starts(state.get("starts", {}), step, trained, followed)
    lows: dict[str, Sequence[Any]] = dict(state.get("lows", {}))
    now = step.mode_step if step.mode is not Mode.EVAL else state.get("now", 0)
    verdicts = []
    for each in finished:
        start = starts.get(followed["eval"][each.name]["base"])
        top, mean, _ = start or (0.0, 0.0, 0)
        low, bad = lows.get(each.name, (each.cost, 0))[:2]
        low = min(low, each.cost)
        known = is_known(start) and each.train_level is not None
        known = known and each.count >= _EVALUATIONS and now >= _PATIENCE
        limit = _limit(each, top, mean, least, least_by_heart)
        overfits = low < (1 - _SKILL) * mean and each.rose(_LOST)
        is_bad = known and low > max(limit, _STAYED * each.first) and not overfits
        bad = bad + 1 if is_bad else 0
        lows[each.name] = (low, bad)
        if known:
            verdicts.append(_verdict(each, mean, low, limit) if bad >= _LOOKS else HEALTHY)
    return {"losses": followed, "starts": starts, "lows": lows, "now": now}, worst_verdict(verdicts)


def _limit(
    now: FinishedEvaluation, top: float, mean: float, least: float, least_by_heart: float
) -> float:
    """The limit for the best evaluation loss, if training began between these."""
    limits = [math.inf]
    trained = now.train_level or 0.0
    if 0 <= trained <= (1 - _FELL) * top:
        won = least_by_heart if trained <= _LEFT * top else least
        limits.append(top - won * (top - trained))
    if now.level > now.best and trained < (1 - _NO_BETTER) * mean:
        limits.append((1 - _NO_BETTER) * mean)
    return min(limits)


def _verdict(now: FinishedEvaluation, start: float, low: float, limit: float) -> Verdict:
    trained = now.train_level or 0.0
    detail = (
        f"{now.name} never fell below {low:.3g} in {now.count} evaluations, while training loss "
        f"went from {start:.3g} to {trained:.3g}: the model does not generalise"
    )
    evidence = {"eval": low, "start": start, "train": trained}
    found = violation(Reason.ABOVE_THRESHOLD, detail, now.tensor, **evidence)
    return measured(found, low, limit)
