"""Follows validation losses and training losses from evaluation to evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from tocsin.model import Mode, TensorSummary
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import State, Step, Tensor
from tocsin.rules._series import (
    MOST_SERIES,
    Direction,
    Point,
    points,
    should_rise,
)

ENOUGH = 5
"""The number of evaluations that are needed to judge a trend."""

_LARGEST = 1e100  # larger losses are ignored, as are losses that are not finite
_SMOOTH = 3  # number of evaluations whose median is the level
_PAST = 15  # evaluations in the memory
_CLEAR = 5.0  # a clear change, in multiples of the noise
_LEAST = 0.15  # of the best: the rise that counts if the loss had hardly fallen
_ENOUGH = 0.75  # a rise by this share of the best is clear, however far the loss had fallen
_RECOVERED = 3.0  # a clear rise, in multiples of the largest rise that a new best followed
_CLEAR_MEAN = 2.5  # a clear rise of the mean of _PAST evaluations, in multiples of their noise


@dataclass(frozen=True)
class FinishedEvaluation:
    """A finished evaluation of a validation loss, with its past. Less is better for all costs.

    ``name``, ``worker``: the tensor of the validation loss.
    ``count``: the number of evaluations so far.
    ``cost``: the mean over the steps of this evaluation.
    ``train``: the mean of the training loss since the evaluation before, if there is one.
    ``level``: the median of the last three costs.
    ``train_level``: the median of the last three training losses.
    ``first``: the cost of the first evaluation.
    ``best``: the lowest level so far.
    ``steady``: the lowest level of three evaluations: one that is low by chance does not count.
    ``train_at_best``: the training level at the evaluation with the best level.
    ``recovered``: the largest rise from a best that was followed by a new best.
    ``costs``: the last evaluations, this one included.
    ``least_mean``: the lowest mean of fifteen consecutive evaluations, None before.
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
    steady: float
    train_at_best: float | None
    recovered: float
    costs: Sequence[float]
    least_mean: float | None = None

    @cached_property
    def noise(self) -> float:
        """Return the noise: the mean deviation of the last evaluations from their neighbours."""
        costs = self.costs
        turns = [_deviation(*three) for three in zip(costs, costs[1:], costs[2:], strict=False)]
        return fmean(turns or [0.0])

    @property
    def clear(self) -> float:
        """Return the least change that is more than noise."""
        return _CLEAR * self.noise

    @property
    def risen(self) -> int:
        """Return the number of consecutive rises at the end of the evaluations."""
        rises = [before < after for before, after in pairwise(self.costs)]
        return next((n for n, rose in enumerate(reversed(rises)) if not rose), len(rises))

    @property
    def always_rose(self) -> bool:
        """Return whether the loss rose at each of the last evaluations and was best at the
        first."""
        return self.risen >= ENOUGH and self.best >= self.first

    @property
    def improved(self) -> bool:
        """Return whether the loss fell clearly from the first evaluation to its best: by more than
        its noise, and by a fifth of the best.
        """
        return self.first - self.best > max(self.clear, abs(self.best) / 5)

    def rose(self, share: float) -> bool:
        """Return whether the loss is clearly above its best, of three evaluations or, where single
        ones are noisy, of fifteen.

        The rise must be more than its noise and earlier rises. It must also be this share of the
        fall before; or if the loss had hardly fallen, as much as that, and ``_LEAST`` of the best.
        Three quarters of the best are always enough.
        """
        fell = self.first - self.steady
        by = share * fell if self.improved else max(fell, _LEAST * abs(self.steady))
        least = min(by, _ENOUGH * abs(self.steady))
        clear = max(self.clear, _RECOVERED * self.recovered)
        if self.level > self.steady and self.level - self.steady >= max(least, clear):
            return True
        if self.least_mean is None:
            return False
        return fmean(self.costs) - self.least_mean >= max(least, _CLEAR_MEAN * self.noise)

    @property
    def train_rise(self) -> float:
        """The rise of the training loss since the best evaluation, 0 if it is not known."""
        if self.train_level is None or self.train_at_best is None:
            return 0.0
        return self.train_level - self.train_at_best

    @property
    def tensor(self) -> Tensor:
        """A tensor with name and worker only, for a verdict. The values belong to earlier steps."""
        return Tensor(self.name, self.worker, TensorSummary())


Followed = tuple[State, tuple[FinishedEvaluation, ...], tuple[Point, ...]]
"""A state after a step, the evaluations that the step ends, and its training losses."""

# The newest results, by the identity of what they follow from.
_newest: dict[tuple[Any, ...], tuple[object, Followed]] = {}


def follow_losses(
    state: State, step: Step, tensors: Iterable[Tensor], direction: Direction | None
) -> Followed:
    """Return the state after this step, the evaluations that it ends, and its training losses.

    EVAL steps are one evaluation if no step of another mode is between them, saved or not. Any
    other step with validation losses (XGBoost) is an evaluation by itself. Rules that follow the
    same losses get the same state, which is computed once.
    """
    tensors = tuple(tensors)
    begun = id(state) if state else 0
    key = (begun, step.step, step.mode, step.mode_step, direction, *map(id, tensors))
    known = _newest.get(key)
    if known is None:
        if len(_newest) >= MOST_SERIES:
            _newest.clear()
        followed = _follow(state, step, tensors, direction)
        known = _newest[key] = (state, tensors), followed  # an identity is that of a live object
    return known[1]


def _follow(
    state: State, step: Step, tensors: Iterable[Tensor], direction: Direction | None
) -> Followed:
    phase = step.step - step.mode_step if step.mode is Mode.EVAL else -1 - step.step
    train: dict[str, Any] = dict(state.get("train", {}))
    series: dict[str, Any] = dict(state.get("eval", {}))
    finished, trained = [], []
    for name, memory in series.items():
        if memory["n"] and memory["phase"] != phase:
            before = train.get(memory["base"])
            series[name] = closed = _closed(memory, before["mean"] if before else None)
            finished.append(_evaluation(name, closed))
            if before:
                train[memory["base"]] = {**before, "n": 0}  # the mean stays until the next save
    for point in points(step, tensors, direction):
        validates, base = classify_loss(step.mode, point.tensor)
        if validates is None or not abs(point.cost) < _LARGEST:
            continue
        of, name = (series, point.tensor.name) if validates else (train, base)
        if name not in of and len(of) >= MOST_SERIES:
            continue
        memory = _with_save(of.get(name, {"n": 0}), point.cost)
        if validates:
            memory |= {"base": base, "phase": phase, "worker": point.tensor.worker}
        else:
            trained.append(point)
        of[name] = memory
    return {"train": train, "eval": series}, tuple(finished), tuple(trained)


def has_pair(followed: State) -> bool:
    """Return whether a training loss and a validation loss have the same name."""
    return any(memory["base"] in followed["train"] for memory in followed["eval"].values())


def metric_value(cost: float, name: str, direction: Direction | None) -> float:
    """Return the value of a metric from its cost."""
    up = should_rise(name) if direction is None else direction == "rises"
    return -cost if up else cost


def _with_save(memory: Mapping[str, Any], cost: float) -> dict[str, Any]:
    """Add a save to the mean of a memory. A new mean starts if ``n`` is 0."""
    saves = memory["n"] + 1
    mean = cost if saves == 1 else memory["mean"] + (cost - memory["mean"]) / saves
    return {**memory, "mean": mean, "n": saves}


def _closed(memory: Mapping[str, Any], train: float | None) -> dict[str, Any]:
    """Return the memory of a validation loss after the end of an evaluation."""
    past = [*memory.get("past", ()), [_rounded(memory["mean"]), _rounded(train)]][-_PAST:]
    level, train_level = _levels(past)
    new = {"first": past[0][0], "best": level, "train_at_best": train_level, "top": level}
    known = {**new, "wander": 0.0, **memory}
    count = memory.get("count", 0) + 1
    before = known.pop("steady", known["best"])
    steady = min(level, before) if count > _SMOOTH else level
    if level < known["best"]:
        wander = max(known["wander"], known["top"] - known["best"])
        known |= {"best": level, "train_at_best": train_level, "top": level, "wander": wander}
    elif known["train_at_best"] is None:
        known["train_at_best"] = train_level
    if steady > known["best"]:
        known["steady"] = steady
    if len(past) == _PAST:
        mean = fmean(cost for cost, _ in past)
        known["least_mean"] = _rounded(min(known.get("least_mean", mean), mean))
    top = max(known["top"], level)
    return {**known, "top": top, "n": 0, "past": past, "count": count}


def _evaluation(name: str, memory: Mapping[str, Any]) -> FinishedEvaluation:
    past = memory["past"]
    level, train_level = _levels(past)
    return FinishedEvaluation(
        name=name,
        worker=memory["worker"],
        count=memory["count"],
        cost=past[-1][0],
        train=past[-1][1],
        level=level,
        train_level=train_level,
        first=memory["first"],
        best=memory["best"],
        steady=memory.get("steady", memory["best"]),
        train_at_best=memory["train_at_best"],
        recovered=memory["wander"],
        costs=[cost for cost, _ in past],
        least_mean=memory.get("least_mean"),
    )


def _deviation(before: float, cost: float, after: float) -> float:
    """Return how far a cost is from the mean of its neighbours, 0 if it is between them."""
    turns = before < cost > after or before > cost < after
    return abs(cost - (before + after) / 2) if turns else 0.0


def _rounded(cost: float | None) -> float | None:
    """Rounds a cost for the memory."""
    return None if cost is None else float(f"{cost:.7g}")


def _levels(past: Sequence[Sequence[Any]]) -> tuple[float, float | None]:
    """Return the current levels of the validation loss and of the training loss."""
    recent = past[-_SMOOTH:]
    trained = [train for _, train in recent if train is not None]
    return median(cost for cost, _ in recent), median(trained) if trained else None
