"""Judges whether losses have stayed at their first level, whatever their noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from tocsin.model import Mode
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._series import Direction, points
from tocsin.rules._sketch import deviation, sketched
from tocsin.rules._window import rounded

_MOST = 4  # losses of each kind
_NAME = 40  # letters of a name
_FIRST = 5  # saves, of which the mean is the start
_EVALUATIONS = 5  # evaluations after which fewer training saves are enough
_NO_BETTER = 0.03  # of the first evaluation loss: improvement of the mean that does not count
_MUCH_BETTER = 0.1  # of it: improvement that no evaluation may reach
_ERRORS = 2.0  # standard errors
_SOME = 0.02  # of the start: a smaller fall is chance
_ROSE = 0.05  # of the start


@dataclass(frozen=True)
class _Patience:
    """The amount of data needed to judge, and by how much the loss may have fallen with its
    errors."""

    steps: float  # a share of those that a user waits for
    saves: int
    fall: float


_WITH_EVALUATIONS = _Patience(0.6, 10, 0.25)
_ALONE = _Patience(1.0, 40, 0.1)


@dataclass(frozen=True)
class Stayed:
    """A training loss that has not fallen.

    ``start``, ``now``: its mean in the first saves, and in the last half of all.
    ``evaluations``: how many there were, in the mean no better than the first one.
    """

    tensor: Tensor
    start: float
    now: float
    evaluations: int


def follow(
    state: State, step: Step, losses: Iterable[Tensor], direction: Direction | None
) -> State:
    """Return the state after this step: the course of training losses, and of evaluations.

    EVAL steps are one evaluation if no step of another mode is between them, saved or not.
    """
    phase = step.step - step.mode_step if step.mode is Mode.EVAL else -1 - step.step
    courses, evaluated = dict(state.get("train", {})), dict(state.get("eval", {}))
    for point in points(step, losses, direction):
        validates, base = classify_loss(step.mode, point.tensor)
        name = (point.tensor.name if validates else base)[-_NAME:]
        into = evaluated if validates else courses
        if validates is None or (name not in into and len(into) >= _MOST):
            continue
        if validates:
            evaluated[name] = _with_batch(evaluated.get(name), point.cost, phase)
        else:
            begun = courses.get(name, {"begun": step.mode_step})
            courses[name] = _with_save(begun, point.cost)
    return {"train": courses, "eval": evaluated}


def _with_batch(evaluation: Sequence[Any] | None, cost: float, phase: int) -> Sequence[Any]:
    """Add a save to an evaluation: phase, save and mean of the latest one; the first one's mean,
    the lowest before the latest one, their number, and the sum of those between the two."""
    cost = rounded(cost, 7) or 0.0  # one that is not finite ends the judging, as 0 does
    if evaluation is None:
        return phase, 1, cost, None, None, 0, 0.0
    before, saves, mean, first, low, count, between = evaluation
    if phase == before:
        mean += (cost - mean) / (saves + 1)
        return phase, saves + 1, rounded(mean, 7), first, low, count, between
    if first is None:
        return phase, 1, cost, mean, mean, 1, 0.0
    between = rounded(between + mean, 7) or 0.0
    return phase, 1, cost, first, min(mean, low), count + 1, between


def _finished(evaluation: Sequence[Any]) -> tuple[float, float, float, int]:
    """Return the mean of the first evaluation, the lowest, the mean of all but the first, and their
    number, with the latest."""
    _, _, mean, first, low, count, between = evaluation
    if first is None:
        return mean, mean, mean, 1
    return first, min(mean, low), (between + mean) / count, count + 1


def _are_better(first: float, low: float, others: float) -> bool:
    """Return whether evaluations have improved on the first one, by more than some are by
    chance."""
    return low < (1 - _MUCH_BETTER) * first or others < (1 - _NO_BETTER) * first


def stayed(
    state: State, step: Step, losses: Iterable[Tensor], direction: Direction | None, steps: int
) -> Stayed | None:
    """Return a training loss of this step if all losses of the run have stayed; else None.

    That is so if the mean of the last half of a loss is not below that of its first saves by two
    standard errors, nor a quarter below it with two more (without evaluations a tenth), and if
    evaluations have not improved on the first one, in their mean. ``steps`` must have passed, of
    which three fifths with evaluations. Losses that are 0 or less have no such share. Fewer than
    five evaluations, or none, need more saves.
    """
    if step.mode is Mode.EVAL or not state["train"]:
        return None
    evaluated = [_finished(each) for each in state["eval"].values()]
    if any(not first > 0 or _are_better(first, low, mean) for first, low, mean, _ in evaluated):
        return None
    count = min((each[3] for each in evaluated), default=0)
    patience = _WITH_EVALUATIONS if count >= _EVALUATIONS else _ALONE
    begun = min(course["begun"] for course in state["train"].values())
    if step.mode_step - begun < patience.steps * steps:
        return None
    levels: dict[str, tuple[float, float]] = {}
    for name, course in state["train"].items():
        if (known := _levels(course, patience)) is None:
            return None
        levels[name] = known
    if len(levels) > 1 and any(map(_rose, levels.values())):
        return None  # they may compete
    for point in points(step, losses, direction):
        validates, base = classify_loss(step.mode, point.tensor)
        if validates is False and (found := levels.get(base[-_NAME:])):
            return Stayed(point.tensor, *found, count)
    return None


def _with_save(course: Mapping[str, Any], cost: float) -> dict[str, Any]:
    number = rounded(cost)
    if number is None or number <= 0 or course.get("unknown"):
        return {"unknown": True, "begun": course["begun"]}
    begun = course.get("first", ())
    first = [*begun, number] if len(begun) < _FIRST else begun
    sketch = sketched(course.get("sketch", {}), number)
    return {**course, "first": first, "sketch": sketch, "saves": course.get("saves", 0) + 1}


def has_fallen(state: State) -> bool:
    """Return whether a loss has clearly fallen: the mean of evaluations, or a training loss by more
    than its noise.
    """
    evaluated = (_finished(each) for each in state["eval"].values())
    if any(_are_better(first, low, mean) for first, low, mean, _ in evaluated):
        return True
    known = (_course(course) for course in state["train"].values() if course.get("sketch"))
    return any(course.fell for course in known)


@dataclass(frozen=True)
class _Course:
    """A loss at its start and lately, whether it fell, and by how much it may have fallen."""

    start: float
    now: float
    fell: bool
    most: float


def _levels(course: Mapping[str, Any], patience: _Patience) -> tuple[float, float] | None:
    """Return the mean of the first saves and that of the last half; None if the loss fell."""
    if course.get("saves", 0) < patience.saves:
        return None
    known = _course(course)
    stayed = not known.fell and known.most < patience.fall * known.start
    return (known.start, known.now) if stayed else None


def _course(course: Mapping[str, Any]) -> _Course:
    blocks, width = course["sketch"]["blocks"], course["sketch"]["width"]
    half, latest = blocks[len(blocks) // 2 :], blocks[-max(1, len(blocks) // 8) :]
    start, now = fmean(course["first"]), fmean(half)
    spread = deviation(half, now)
    errors, latest_errors = (
        spread * math.hypot(math.sqrt(width / _FIRST), 1 / math.sqrt(len(part)))
        for part in (half, latest)
    )
    fell = start - now >= _ERRORS * errors + _SOME * start
    fell = fell or start - fmean(latest) >= _ERRORS * latest_errors + _SOME * start
    return _Course(start, now, fell, start - now + _ERRORS * errors)


def _rose(levels: tuple[float, float]) -> bool:
    return levels[1] > (1 + _ROSE) * levels[0]
