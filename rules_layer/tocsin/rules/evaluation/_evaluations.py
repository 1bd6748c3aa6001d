"""Follows the improvement of evaluations over a constant prediction, and its loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from tocsin.model import Mode
from tocsin.rules._loss_names import read_losses, select_losses
from tocsin.rules._rule import Reads, State, Step, Tensor
from tocsin.rules._series import Direction, Point
from tocsin.rules._train_eval import FinishedEvaluation, follow_losses
from tocsin.rules.evaluation._scores import are_better, follow_scores
from tocsin.rules.evaluation._starts import Start, is_known, with_starts
from tocsin.rules.skill._pairing import MOST_SITES, SKILLS, sites

_NOTHING: State = {}  # one object: rules that follow the same share what is computed of it
_TOGETHER = 3  # evaluations whose median counts


@dataclass(frozen=True)
class Evaluations:
    """The evaluations that a step ends, and the training losses in it.

    ``state``: what a rule keeps of them: ``losses``, as ``follow_losses`` does; ``starts``, the
    first losses of the untrained model; ``won``, the advantage over a constant guess; ``scores``,
    as ``follow_scores`` does.
    """

    state: State
    finished: tuple[FinishedEvaluation, ...]
    trained: tuple[Point, ...]

    @property
    def followed(self) -> State:
        losses: State = self.state["losses"]
        return losses

    def improves(self, now: FinishedEvaluation) -> bool:
        """Return whether most scores are clearly better than at the evaluation of the best loss."""
        return are_better(self.state["scores"], now.name)

    def lost(self, now: FinishedEvaluation) -> float | None:
        """Return the lost share of the improvement over a constant prediction, or else over the
        untrained model; None if neither is known.
        """
        share = _lost_share(self.state["won"])
        if share is not None:
            return share
        start = self.state["starts"].get(self.followed["eval"][now.name]["base"])
        return _lost_since_start(now, start)


def evaluation_reads(regex: tuple[str, ...]) -> Reads:
    """Read losses and comparisons of them; of tensors that a user names nothing is compared."""
    losses = {"losses": read_losses(regex)}
    return Reads(losses if regex else {**losses, "skills": SKILLS})


def follow_evaluations(
    state: State,
    step: Step,
    regex: tuple[str, ...],
    direction: Direction | None,
    *,
    with_start: bool,
) -> Evaluations:
    """Add a step to the memory of evaluations.

    with_start: also of the untrained model, and of the scores of evaluations.
    """
    losses = select_losses(step.tensors["losses"], regex)
    followed, finished, trained = follow_losses(state.get("losses", {}), step, losses, direction)
    starts = state.get("starts", _NOTHING)
    starts = with_starts(starts, step, trained, followed) if with_start else starts
    won = _with_evaluation(state.get("won", {}), step, step.tensors.get("skills", ()))
    scores: State = state.get("scores", _NOTHING)
    if with_start and not regex:
        scores = follow_scores(scores, step, step.tensors["losses"], finished)
    after = {"losses": followed, "starts": starts, "won": won, "scores": scores}
    return Evaluations(after, finished, trained)


def _with_evaluation(
    won: Mapping[str, Any], step: Step, skills: Iterable[Tensor]
) -> Mapping[str, Any]:
    """Add an evaluation, by calls of losses: the share by which each is below a guess's loss."""
    if step.mode is not Mode.EVAL:
        return won
    after = dict(won)
    for site in sites(step, skills):
        if site.constant is None or (site.key not in after and len(after) >= MOST_SITES):
            continue
        before = after.get(site.key, {"last": []})
        last = [*before["last"], round(site.constant, 4)][-_TOGETHER:]
        level = median(last)
        after[site.key] = {"last": last, "level": level, "best": max(before.get("best", 0), level)}
    return after


def _lost_share(won: Mapping[str, Any]) -> float | None:
    """Return the largest lost share of an earlier improvement; None if unknown."""
    known = [(each["best"] - each["level"]) / each["best"] for each in won.values() if each["best"]]
    return max(known, default=None)


def _lost_since_start(now: FinishedEvaluation, start: Start | None) -> float | None:
    """Return the lost share of the improvement over the untrained model; None if its loss is
    unknown.
    """
    if start is None or not is_known(start) or not 0 <= now.best < start[0]:
        return None
    return (now.level - now.best) / (start[0] - now.best)
