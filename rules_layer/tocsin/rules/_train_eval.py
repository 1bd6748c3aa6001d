"""Follows validation losses beside training losses, from evaluation to evaluation."""

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
"""The evaluations that are needed before a trend is judged."""

_LARGEST = 1e100  # larger losses, and those that are not finite, are ignored
_SMOOTH = 3  # evaluations of which a level is the median
_PAST = 15  # evaluations that are remembered
_CLEAR = 5.0  # times the noise: a clear change
_ENOUGH = 0.75  # of the best: a clear rise, however far the loss had fallen before
_WANDER = 3.0  # times the earlier rises that were made up for: a clear rise

# XGBoost: train-rmse, validation_0-rmse. LightGBM: training's l2, valid_0's l2. Others: val_loss.
_SIDE = re.compile(
    r"(?:(train(?:ing)?)|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev)"
    r"(?:_?\d+)?(?:'s)?(?:[-_/.: ]+|$)",
    re.IGNORECASE,
)

# The names of losses among the metrics of XGBoost, LightGBM and people.
_LOSS = re.compile(
    r"loss|(?<![a-z])(?:m?error|rmsle|r?mse|l[12]|mae|mape|mphe|nll|deviance|perplexity)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation of a validation loss, with its past. All are costs: less is better.

    ``cost`` is the mean over the steps of this evaluation.
    ``train`` is the mean of the training loss of that name since the evaluation before, if any.
    ``level`` and ``train_level`` are the medians of the last three of each.
    ``first`` is the cost of the first evaluation.
    ``best`` is the least level so far.
    ``train_at_best`` is the training level at that evaluation.
    ``noise`` is how much the last evaluations go up and down, on average.
    ``wander`` is the largest rise from a best that a new best has made up for.
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
        """Whether the loss fell clearly from the first evaluation to its best: by more than its
        noise, and by a fifth of the best.
        """
        return self.first - self.best > max(_CLEAR * self.noise, abs(self.best) / 5)

    def rose(self, share: float) -> bool:
        """Whether the loss is clearly above its best: by more than its noise and earlier rises, and
        by this share of its fall, or by half of the best if it had not fallen. Three quarters of
        the best are enough.
        """
        by = share * (self.first - self.best) if self.improved else abs(self.best) / 2
        least = max(min(by, _ENOUGH * abs(self.best)), _CLEAR * self.noise, _WANDER * self.wander)
        return self.level > self.best and self.level - self.best >= least

    @property
    def train_rise(self) -> float:
        """The rise of the training loss since the best evaluation; 0 if unknown."""
        if self.train_level is None or self.train_at_best is None:
            return 0.0
        return self.train_level - self.train_at_best

    @property
    def tensor(self) -> Tensor:
        """The name and worker, for a verdict: the values belong to earlier steps."""
        return Tensor(self.name, self.worker, TensorSummary())


def losses_of(regex: tuple[str, ...]) -> Read:
    """Reads losses and metrics, or the named tensors, for rules that follow validation losses."""
    read = Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS)
    return read.explicitly((), regex)


def losses_among(tensors: Iterable[Tensor], regex: tuple[str, ...]) -> list[Tensor]:
    """The losses among tensors, by role or by the name of a metric; all of them if named."""
    return [t for t in tensors if regex or t.role is not Role.METRIC or _LOSS.search(t.name)]


def side(mode: Mode, name: str) -> tuple[bool | None, str]:
    """Whether a loss is a validation loss (None: neither), and its name without that prefix.

    A prefix of the name decides, else the mode. A run without modes is training.
    """
    if found := _SIDE.match(name):
        return found[1] is None, name[found.end() :]
    return (None if mode is Mode.PREDICT else mode is Mode.EVAL), name


def follow(
    state: State, step: Step, tensors: Iterable[Tensor], direction: Direction | None
) -> tuple[State, tuple[Evaluation, ...], tuple[Point, ...]]:
    """The state after this step, the evaluations that it ends, and its training losses.

    EVAL steps are one evaluation if no step of another mode lies between them, saved or not. Any
    other step with validation losses (XGBoost) is an evaluation by itself.
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
    """Whether a training and a validation loss share a name."""
    return any(memory["base"] in followed["train"] for memory in followed["eval"].values())


def as_saved(cost: float, name: str, direction: Direction | None) -> float:
    """The value of a metric from its cost."""
    up = rises(name) if direction is None else direction == "rises"
    return -cost if up else cost


def _added(memory: Mapping[str, Any], cost: float) -> dict[str, Any]:
    """The memory with one more save in its mean; a new mean begins where ``n`` is 0."""
    saves = memory["n"] + 1
    mean = cost if saves == 1 else memory["mean"] + (cost - memory["mean"]) / saves
    return {**memory, "mean": mean, "n": saves}


def _closed(memory: Mapping[str, Any], train: float | None) -> dict[str, Any]:
    """The memory of a validation loss after the end of an evaluation."""
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
    """The distance of a cost from the line between its neighbours, if it is above or below both."""
    turns = before < cost > after or before > cost < after
    return abs(cost - (before + after) / 2) if turns else 0.0


def _short(cost: float | None) -> float | None:
    """Rounded to the digits that matter: it is remembered for long."""
    return None if cost is None else float(f"{cost:.7g}")


def _levels(past: Sequence[Sequence[Any]]) -> tuple[float, float | None]:
    """The current levels of the validation loss and of the training loss."""
    recent = past[-_SMOOTH:]
    trained = [train for _, train in recent if train is not None]
    return median(cost for cost, _ in recent), median(trained) if trained else None
