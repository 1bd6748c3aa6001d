"""Contracts on learning-rate schedules: they are stepped, as often as they are made for, and
``mode`` fits the metric.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from tocsin_hooks.torch import events
from tocsin_hooks.torch.autograd import parts_of_schedule, phases_of_schedule
from tocsin_hooks.torch.contracts.findings import Findings

_SOUGHT = (2, 4)  # evaluations, in which schedules are looked for
_CLOSE = 0.03  # of a loss: a script may weigh the last batch in another way
_FALLEN = 0.8  # of a loss
_UPDATES = 50
_EPOCHS = 3  # before the last evaluation, for schedules that have gone since
_LIVED = 0.2  # of a schedule
_HELD_BACK = 0.5  # of the rate that an optimizer was made with
_ALL = 0.99  # of the updates that it counts: as many, or the training was stopped


class _State(NamedTuple):
    """A schedule: ``counted`` and ``warm_up`` are what it says, 0 where it says nothing.

    ``is_low``: the rate is far below that of the optimizer.
    """

    name: str
    optimizer: int
    steps: int
    counted: float
    warm_up: float
    is_low: bool
    updates: int


class Schedules:
    """Checks the schedules of the optimizers that update a model, in evaluations and at the end."""

    def __init__(self, found: Findings) -> None:
        self._found = found
        self._updates = WeakKeyDictionary[Any, int]()
        self._evaluations = 0
        self._losses: list[float] = []  # of evaluations
        self._known = WeakSet[Any]()
        self._states: dict[int, _State] = {}  # as they were last: at the end some may be gone
        self._bests = WeakKeyDictionary[Any, float]()  # what was taken for the best at first

    def update_ends(self, event: events.UpdateEnds) -> None:
        self._updates[event.optimizer] = self._updates.get(event.optimizer, 0) + 1

    def updates_skipped(self, event: events.UpdatesSkipped) -> None:
        for optimizer, number in event.updates.items():
            if optimizer in self._updates:
                self._updates[optimizer] += number

    def saved_step_ends(self, event: events.SavedStepEnds) -> None:
        """Check the schedules if the step is an evaluation."""
        if not event.evaluates:
            return
        self._evaluations += 1
        if self._evaluations in _SOUGHT:
            self._known = WeakSet(self._of_the_model())
        self._look()
        if self._evaluations > _SOUGHT[-1]:
            return
        if (found := event.loss()) is not None:
            self._losses.append(found)
        for each in [*self._known]:
            if getattr(each, "mode", None) == "max" and each.last_epoch:
                self._bests.setdefault(each, float(each.best))
            if self._takes_the_worst(each):
                self._found("monitor_mode_reversed", type(each).__name__)

    def training_ends(self, _: events.TrainingEnds) -> None:
        """Judge the steps of all schedules at the end of the training."""
        self._look()
        alive = {id(each) for each in self._known}
        stepped = {each.optimizer for each in self._states.values() if each.steps}
        for key, state in self._states.items():
            counted = state.counted
            if state.updates < _UPDATES:
                continue
            if state.steps == 0 and state.optimizer not in stepped:  # another one may be for later
                if key in alive or self._evaluations >= _EPOCHS:
                    broken = "warmup_not_finished" if state.is_low else "scheduler_not_stepped"
                    self._found(broken, state.name)
            elif not 0 < _ALL * counted <= state.updates:
                continue
            elif state.steps <= _LIVED * counted and state.updates <= counted / _ALL:
                self._found("scheduler_stepped_per_epoch", state.name)
            elif state.steps < state.warm_up / 2:
                self._found("warmup_not_finished", state.name)

    def _look(self) -> None:
        for each in [*self._known]:
            optimizer = _optimizer_of(each)
            self._states[id(each)] = _State(
                type(each).__name__,
                id(optimizer),
                each.last_epoch,
                counted_steps(each),
                warm_up_steps(each),
                _is_low(each),
                self._updates.get(optimizer, 0),
            )

    def _takes_the_worst(self, schedule: Any) -> bool:
        """Return whether what it takes for the best is the largest of losses that have fallen
        since."""
        best = self._bests.get(schedule)
        return (
            best is not None
            and best == schedule.best
            and len(self._losses) == _SOUGHT[-1]
            and abs(max(self._losses) - best) <= _CLOSE * abs(best)
            and self._losses[-1] <= _FALLEN * best
        )

    def _of_the_model(self) -> Iterator[Any]:
        """Schedules of its optimizers that are no parts of others."""
        found = [each for each in gc.get_objects() if issubclass(type(each), LRScheduler)]
        parts = {id(part) for each in found for part in parts_of_schedule(each)}
        return (
            each for each in found if id(each) not in parts and _optimizer_of(each) in self._updates
        )


def _optimizer_of(schedule: Any) -> Any:
    """The optimizer of a schedule: the one within, where Accelerate has wrapped it."""
    found = getattr(schedule, "optimizer", None)
    within = getattr(found, "optimizer", None)
    return within if isinstance(within, Optimizer) else found


def _is_low(schedule: Any) -> bool:
    """Return whether the rate is far below that of the optimizer, as where it is still warmed
    up."""
    groups = schedule.optimizer.param_groups
    return any(each["lr"] < _HELD_BACK * each.get("initial_lr", each["lr"]) for each in groups)


def counted_steps(schedule: Any) -> float:
    """Return the number of steps that a schedule is made for; 0 if it does not say."""
    for name in ("total_steps", "T_max"):
        if isinstance(steps := getattr(schedule, name, None), int | float):
            return steps
    return _keyword(schedule, "num_training_steps")


def warm_up_steps(schedule: Any) -> float:
    """Return the number of warm-up steps of a schedule, if it has them."""
    phases = phases_of_schedule(schedule)
    if phases:
        return float(phases[0]["end_step"])
    return _keyword(schedule, "num_warmup_steps")


def _keyword(schedule: Any, name: str) -> float:
    """An argument of the functions of Hugging Face's schedules."""
    functions = getattr(schedule, "lr_lambdas", ())
    given = (getattr(each, "keywords", None) or {} for each in functions)
    return max((float(each.get(name) or 0) for each in given), default=0.0)
