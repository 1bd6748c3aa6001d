"""Training losses and the validation losses beside them, evaluation by evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from tocsin.model import Mode, Role, TensorSummary
from tocsin.rules._rule import Read, State, Step, Tensor
from tocsin.rules._series import MOST_SERIES, SCALAR_FIELDS, Direction, Point, points, rises

ENOUGH = 5
"""Evaluations before anything is said of their course."""

_LARGEST = 1e100  # of a loss: with what is beyond, or is no number, nothing can be reckoned
_SMOOTH = 3  # evaluations, and what was trained before each, of which the median is taken
_PAST = 15  # evaluations remembered
_CLEAR = 5.0  # a change of so many times the noise is one
_ENOUGH = 0.75  # of its best: a rise by so much is one however far a loss had fallen before
_WANDER = 3.0  # and a rise of so many times those that were made up for

# XGBoost: train-rmse, validation_0-rmse. LightGBM: training's l2, valid_0's l2. Others: val_loss.
_SIDE = re.compile(
    r"(?:(train(?:ing)?)|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)"
    r"(?:_?\d+)?(?:'s)?(?:[-_/.: ]+|$)",
    re.IGNORECASE,
)

# What XGBoost, LightGBM and people call losses among their metrics.
_LOSS = re.compile(
    r"loss|(?<![a-z])(?:m?error|rmsle|r?mse|l[12]|mae|mape|mphe|nll|deviance|perplexity)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation of a validation loss, with its past. All are costs: smaller is better.

    ``cost`` is the mean over the steps of this evaluation, ``train`` that of the training loss
    since the evaluation before; None if there is none of that name. ``level`` and ``train_level``
    are the medians of the last three of each, ``best`` is the least level so far,
    ``train_at_best`` the training's then. ``first`` is the cost of the first evaluation, ``noise``
    how much the last ones go up and down from one to the next, on average; ``wander`` the largest
    rise from the best that a new best has made up for.
    """

    name: str
    worker: str
    count: int
    cost: float
    train: float | None
    level: float
    train_level: float | None
    first: float
    best: float
    train_at_best: float | None
    noise: float
    wander: float

    @property
    def improved(self) -> bool:
        """Whether the loss had clearly fallen from the first evaluation to its best: beyond its
        noise, and by a fifth of the best.
        """
        return self.first - self.best > max(_CLEAR * self.noise, abs(self.best) / 5)

    def rose(self, share: float) -> bool:
        """Whether the loss is clearly above its best: beyond its noise and what it has wandered,
        and by this share of what it had fallen, or by half of the best if it had not; three
        quarters of the best are enough.
        """
        by = share * (self.first - self.best) if self.improved else abs(self.best) / 2
        least = max(min(by, _ENOUGH * abs(self.best)), _CLEAR * self.noise, _WANDER * self.wander)
        return self.level > self.best and self.level - self.best >= least

    @property
    def train_rise(self) -> float:
        """By how much the training loss is above where it was at the best; 0 if unknown."""
        if self.train_level is None or self.train_at_best is None:
            return 0.0
        return self.train_level - self.train_at_best

    @property
    def tensor(self) -> Tensor:
        """For a verdict: the name and worker, as its values belong to earlier steps."""
        return Tensor(self.name, self.worker, TensorSummary())


def losses_of(regex: tuple[str, ...]) -> Read:
    """What a rule reads that follows losses: those with a role that can be, or the named ones."""
    read = Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS)
    return read.explicitly((), regex)


def losses_among(tensors: Iterable[Tensor], regex: tuple[str, ...]) -> list[Tensor]:
    """Those that are losses, by their role or the name of the metric, or all that were named."""
    return [t for t in tensors if regex or t.role is not Role.METRIC or _LOSS.search(t.name)]


def side(mode: Mode, name: str) -> tuple[bool | None, str]:
    """Whether a loss is of validation (None: of neither), and its name without saying so.

    A prefix of the name decides, else the mode; a run without modes is training.
    """
    if found := _SIDE.match(name):
        return found[1] is None, name[found.end() :]
    return (None if mode is Mode.PREDICT else mode is Mode.EVAL), name


def follow(
    state: State, step: Step, tensors: Iterable[Tensor], direction: Direction | None
) -> tuple[State, tuple[Evaluation, ...], tuple[Point, ...]]:
    """The state after this step, the evaluations that it shows to be over, and the training
    losses that it has.

    EVAL steps are one evaluation if there was no step of another mode between them, saved or not;
    any other step with validation losses (XGBoost) is one by itself.
    """
    phase = step.step - step.mode_step if step.mode is Mode.EVAL else -1 - step.step
    train: dict[str, Any] = dict(state.get("train", {}))
    series: dict[str, Any] = dict(state.get("eval", {}))
    over, trained = [], []
    for name, memory in series.items():
        if memory["n"] and memory["phase"] != phase:
            before = train.get(memory["base"])
            series[name] = closed = _closed(memory, before["mean"] if before else None)
            over.append(_evaluation(name, closed))
            if before:
                train[memory["base"]] = {**before, "n": 0}  # the mean stays until there is another
    for point in points(step, tensors, direction):
        validates, base = side(step.mode, point.tensor.name)
        if validates is None or not abs(point.cost) < _LARGEST:
            continue
        of, name = (series, point.tensor.name) if validates else (train, base)
        if name not in of and len(of) >= MOST_SERIES:
            continue
        memory = _added(of.get(name, {"n": 0}), point.cost)
        if validates:
            memory |= {"base": base, "phase": phase, "worker": point.tensor.worker}
        else:
            trained.append(point)
        of[name] = memory
    return {"train": train, "eval": series}, tuple(over), tuple(trained)


def paired(followed: State) -> bool:
    """Whether there is a training and a validation loss of one name."""
    return any(memory["base"] in followed["train"] for memory in followed["eval"].values())


def as_saved(cost: float, name: str, direction: Direction | None) -> float:
    """A cost as the metric of that name that it was made of."""
    up = rises(name) if direction is None else direction == "rises"
    return -cost if up else cost


def _added(memory: Mapping[str, Any], cost: float) -> dict[str, Any]:
    """The memory with one more save in its mean; where ``n`` is 0, a new mean begins."""
    saves = memory["n"] + 1
    mean = cost if saves == 1 else memory["mean"] + (cost - memory["mean"]) / saves
    return {**memory, "mean": mean, "n": saves}


def _closed(memory: Mapping[str, Any], train: float | None) -> dict[str, Any]:
    """The memory of a validation loss with its evaluation in the past."""
    past = [*memory.get("past", ()), [_short(memory["mean"]), _short(train)]][-_PAST:]
    level, train_level = _levels(past)
    new = {"first": memory["mean"], "best": level, "train_at_best": train_level, "top": level}
    known = {**new, "wander": 0.0, **memory}
    if level < known["best"]:
        wander = max(known["wander"], known["top"] - known["best"])
        known |= {"best": level, "train_at_best": train_level, "top": level, "wander": wander}
    elif known["train_at_best"] is None:
        known["train_at_best"] = train_level
    top = max(known["top"], level)
    return {**known, "top": top, "n": 0, "past": past, "count": memory.get("count", 0) + 1}


def _evaluation(name: str, memory: Mapping[str, Any]) -> Evaluation:
    past = memory["past"]
    level, train_level = _levels(past)
    costs = [cost for cost, _ in past]
    turns = [_turn(*three) for three in zip(costs, costs[1:], costs[2:], strict=False)]
    return Evaluation(
        name=name,
        worker=memory["worker"],
        count=memory["count"],
        cost=costs[-1],
        train=past[-1][1],
        level=level,
        train_level=train_level,
        first=memory["first"],
        best=memory["best"],
        train_at_best=memory["train_at_best"],
        wander=memory["wander"],
        noise=fmean(turns or [0.0]),
    )


def _turn(before: float, cost: float, after: float) -> float:
    """How far a cost is from the line between its neighbours, if it is above or below both."""
    turns = before < cost > after or before > cost < after
    return abs(cost - (before + after) / 2) if turns else 0.0


def _short(cost: float | None) -> float | None:
    """With as many digits as a loss is worth: it is remembered for long."""
    return None if cost is None else float(f"{cost:.7g}")


def _levels(past: Sequence[Sequence[Any]]) -> tuple[float, float | None]:
    """The present level of the validation loss, and of the training loss."""
    recent = past[-_SMOOTH:]
    trained = [train for _, train in recent if train is not None]
    return median(cost for cost, _ in recent), median(trained) if trained else None
