"""Follows what evaluations win over a constant guess, and what of it they lose again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from tocsin.model import Mode
from tocsin.rules._rule import Step, Tensor
from tocsin.rules._train_eval import FinishedEvaluation
from tocsin.rules.evaluation._starts import Start, is_known
from tocsin.rules.skill._pairing import MOST_SITES, sites

_TOGETHER = 3  # evaluations, of which the median counts


def with_evaluation(
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


def lost_share(won: Mapping[str, Any]) -> float | None:
    """Return the largest share that is lost of what was won once; None if nothing is known."""
    known = [(each["best"] - each["level"]) / each["best"] for each in won.values() if each["best"]]
    return max(known, default=None)


def lost_since_start(now: FinishedEvaluation, start: Start | None) -> float | None:
    """Return the share that is lost of what evaluations once had won over the untrained model; None
    if its loss is not known."""
    if start is None or not is_known(start) or not 0 <= now.best < start[0]:
        return None
    return (now.level - now.best) / (start[0] - now.best)
