"""Training losses of a model before it was trained: those of its first saves."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import State, Step
from tocsin.rules._series import Point
from tocsin.rules._shared import shared

_SAVES = 3  # that a start has
_SOON = 40  # steps in which the first of them must be

Start = tuple[float, float, int]
"""The largest of the first saves, their mean and number; below 0 where there is no start."""


@shared
def with_starts(
    starts: Mapping[str, Start], step: Step, trained: tuple[Point, ...], followed: State
) -> dict[str, Start]:
    """Add the training losses of a step, by their names beside those of evaluations.

    A training that was not seen from its start, or was evaluated before its third save, has none: a
    history of epochs does not.
    """
    after = dict(starts)
    evaluated = {memory["base"] for memory in followed["eval"].values()}
    for point in trained:
        base = classify_loss(step.mode, point.tensor)[1]
        after[base] = _with_save(after.get(base), point.cost, step.mode_step, base in evaluated)
    return after


def is_known(start: Start | None) -> bool:
    return start is not None and start[2] == _SAVES and start[1] > 0


def _with_save(start: Start | None, cost: float, now: int, evaluated: bool) -> Start:
    top, mean, saves = start = start or (cost, 0.0, 0 if now <= _SOON else -1)
    if not 0 <= saves < _SAVES:
        return start
    if evaluated:
        return top, mean, -1
    return max(top, cost), mean + (cost - mean) / (saves + 1), saves + 1
