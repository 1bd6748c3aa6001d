"""Compares the scores of evaluations, such as an accuracy, with those at the best loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.model import Role
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._series import should_rise
from tocsin.rules._shared import shared
from tocsin.rules._train_eval import FinishedEvaluation, follow_losses


@shared
def follow_scores(
    state: State,
    step: Step,
    tensors: tuple[Tensor, ...],
    losses: tuple[FinishedEvaluation, ...],
) -> State:
    """Add the scores of evaluations in a step, and mark their levels at each loss's best.

    ``state``: ``series``, as ``follow_losses`` keeps them; ``levels``, of each score with its least
    clear change; ``at_best``, for each loss the levels of the scores.
    """
    scores = [each for each in tensors if _is_score(step, each)]
    if not scores and not state:
        return state
    series, finished, _ = follow_losses(state.get("series", {}), step, scores, None)
    levels = {**state.get("levels", {}), **{each.name: _level(each) for each in finished}}
    at_best = dict(state.get("at_best", {}))
    for loss in losses:
        if loss.level <= loss.best or loss.name not in at_best:
            at_best[loss.name] = {name: level for name, (level, _) in levels.items()}
    return {"series": series, "levels": levels, "at_best": at_best}


def are_better(state: State, loss: str) -> bool:
    """Return whether most scores are clearly better now than at the best evaluation of a loss."""
    levels: Mapping[str, Any] = state.get("levels", {})
    before: Mapping[str, float] = state.get("at_best", {}).get(loss, {})
    known = {name: now for name, now in levels.items() if name in before}
    better = [name for name, (level, least) in known.items() if level + least < before[name]]
    return 2 * len(better) > len(known)


def _is_score(step: Step, tensor: Tensor) -> bool:
    is_score = tensor.role is Role.METRIC and should_rise(tensor.name)
    return is_score and classify_loss(step.mode, tensor)[0] is True


def _level(score: FinishedEvaluation) -> list[float]:
    """Return the level of a score as a cost, and the least change of it that is clear."""
    return [float(f"{number:.7g}") for number in (score.level, score.clear)]
