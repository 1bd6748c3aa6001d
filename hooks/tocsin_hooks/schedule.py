"""The schedule of saved steps and of their collections."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tocsin.model import Mode
from tocsin.watch import Capture, CollectionConfig, SaveConfig

if TYPE_CHECKING:  # which imports this module
    from tocsin_hooks.settings import CaptureSettings


@dataclass(frozen=True)
class Due:
    """The part of a step that is saved: ``own`` by collection, ``common`` for all others."""

    common: bool
    own: Mapping[str, bool]

    def wants(self, collections: tuple[str, ...]) -> bool:
        return any(self.own.get(name, self.common) for name in collections)


@dataclass(frozen=True)
class SavedSteps:
    """The steps of one mode that are saved: every ``interval``-th from ``start`` up to, without,
    ``end``, and ``also`` these; ``after_training`` those of EVAL that follow a save of TRAIN."""

    interval: int
    start: int = 0
    end: float = math.inf
    also: frozenset[int] = frozenset()
    after_training: bool = False

    def has(
        self, number: int, stretch: int = 1, *, late: bool = False, turn: int | None = None
    ) -> bool:
        """Return whether a step is saved; ``late``: by the clock it is time.

        The interval is counted in turns where there are any.
        """
        counted = number if turn is None else turn
        return number in self.also or (
            self.is_inside(number) and (late or counted % (self.interval * stretch) == 0)
        )

    def is_inside(self, number: int) -> bool:
        return self.start <= number < self.end

    def count(self, number: int, steps: int) -> int:
        """Return how many of ``steps`` steps from ``number`` on are due by the interval alone."""
        first, last = max(number, self.start), min(number + steps, self.end)
        return max(0, int(-(-last // self.interval)) - -(-first // self.interval))

    def idle_steps(self, number: int, stretch: int, turn: int | None = None) -> int:
        """Return how many steps from ``number`` on are sure not to be saved."""
        counted = number if turn is None else turn
        first = counted if turn is not None else max(counted, self.start)
        steps = first + -first % (self.interval * stretch) - counted
        if turn is None and number + steps >= self.end:
            steps = sys.maxsize
        return min([steps, *(each - number for each in self.also if each >= number)])


class Schedule:
    """A schedule of saved steps: by their number in their mode, or after some seconds.

    A step of no mode (GLOBAL) goes by its number among all steps. Of what is said in several
    places the first counts: a collection's for the mode, a collection's, the capture's for the
    mode, the capture's.

    A step of EVAL is saved as well if a step of TRAIN was due since the last that was saved, for
    any collection, unless an interval is set for EVAL: evaluations are rare, and rules compare each
    with training. How far TRAIN is stretched does not count there.
    """

    def __init__(self, settings: CaptureSettings) -> None:
        capture = settings.capture
        self._seconds = capture.save_interval_seconds
        self._common = {mode: _steps(mode, capture) for mode in Mode}
        self._own = {
            mode: {
                name: steps
                for name, config in capture.collections.items()
                if (steps := _steps(mode, config, capture)) != self._common[mode]
            }
            for mode in Mode
        }
        self._saved_at: dict[tuple[Mode, str | None], float] = {}
        self._trained = 0  # steps of TRAIN that were due since an evaluation was saved

    def due(
        self,
        mode: Mode,
        mode_step: int,
        step: int,
        now: float | None,
        stretch: int = 1,
        every: int | None = None,
        turn: int | None = None,
    ) -> Due | None:
        """Return the part of this step that is saved, if any.

        ``step`` is its number among all steps, ``now`` in seconds of a steady clock. ``stretch``
        multiplies intervals, of steps and of seconds; the steps of ``save_steps`` stay. Several
        workers have no clock in common: ``now`` is None, and ``every`` so many steps the time.
        ``turn`` is the step's number among those of its optimizer, where several take turns.
        """
        number = step if mode is Mode.GLOBAL else mode_step
        counted = every is not None and number % (every * stretch) == 0

        def has(steps: SavedSteps, name: str | None = None) -> bool:
            late = counted if now is None else self._late(mode, name, now, stretch)
            rare = steps.after_training and self._trained >= stretch
            return steps.has(number, stretch, late=late, turn=turn) or (
                rare and steps.is_inside(number)
            )

        common = has(self._common[mode])
        own = {name: has(steps, name) for name, steps in self._own[mode].items()}
        due = Due(common, own) if common or any(own.values()) else None
        if mode is Mode.TRAIN:
            known = (self._common[mode], *self._own[mode].values())
            self._trained += due is not None or any(each.has(number, turn=turn) for each in known)
        return due

    def idle_steps(
        self, mode: Mode, number: int, stretch: int, every: int | None, turn: int | None
    ) -> int:
        """Return how many steps from ``number`` on are sure not to be due. See ``due``."""
        counted = 0 if every is None else -number % (every * stretch)
        known = (self._common[mode], *self._own[mode].values())
        idle = min(each.idle_steps(number, stretch, turn) for each in known)
        return idle if every is None else min(idle, counted)

    def idle_until(self, mode: Mode, stretch: int) -> float:
        """Return the time of the steady clock from which on any step is due."""
        if self._seconds is None:
            return math.inf
        saved = (self._saved_at.get((mode, name), 0.0) for name in (None, *self._own[mode]))
        return min(saved) + self._seconds * stretch

    def skipped(self, mode: Mode, number: int, steps: int) -> None:
        """Steps from ``number`` on, none of them due, have gone by without being asked about."""
        if mode is Mode.TRAIN and steps:
            known = (self._common[mode], *self._own[mode].values())
            self._trained += max(each.count(number, steps) for each in known)

    def saved(self, mode: Mode, due: Due, now: float) -> None:
        """The part of a step that was due has been saved; for that the seconds start again.

        For the rest they go on: losses of every step do not keep weights from being saved.
        """
        if mode is Mode.EVAL and self._follows_training(due):
            self._trained = 0
        if self._seconds is not None:
            saved = [None] * due.common + [name for name, its_turn in due.own.items() if its_turn]
            self._saved_at |= {(mode, name): now for name in saved}

    def _follows_training(self, due: Due) -> bool:
        """Return whether a save of EVAL includes the tensors saved after training."""
        own = self._own[Mode.EVAL]
        saved = [self._common[Mode.EVAL]] * due.common
        saved += [own[name] for name, its_turn in due.own.items() if its_turn and name in own]
        return any(each.after_training for each in saved)

    def _late(self, mode: Mode, collection: str | None, now: float, stretch: int) -> bool:
        if self._seconds is None:
            return False
        last = self._saved_at.setdefault((mode, collection), now)
        return now - last >= self._seconds * stretch


def _steps(mode: Mode, *configs: CollectionConfig | Capture) -> SavedSteps:
    """The steps of a mode as the first of the configurations has them that says so."""
    layers: list[CollectionConfig | Capture | SaveConfig] = []
    for config in configs:
        layers += [config.modes.get(mode, SaveConfig()), config]
    intervals = [layer.save_interval for layer in layers if layer.save_interval is not None]
    starts = [layer.start_step for layer in layers if layer.start_step is not None]
    ends = [layer.end_step for layer in layers if layer.end_step is not None]
    also = [layer.save_steps for layer in layers if layer.save_steps is not None]
    return SavedSteps(
        interval=intervals[0],
        start=starts[0] if starts else 0,
        end=ends[0] if ends else math.inf,
        also=frozenset(also[0]) if also else frozenset(),
        after_training=mode is Mode.EVAL
        and all(config.modes.get(mode, SaveConfig()).save_interval is None for config in configs),
    )
