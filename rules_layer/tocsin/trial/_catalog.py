"""Which steps a run has, of which modes, and which of them are complete."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from tocsin.model import Mode
from tocsin.tensors import IndexFile, complete_steps
from tocsin.trial._state import StepState
from tocsin.trial._table import Layout, StepFile, Tables

_NONE: Mapping[str, StepFile] = {}


class Catalog:
    """What the index files that were taken in say. It reads nothing by itself.

    ``last_complete`` is the greatest step that all workers have saved: nothing more comes for it
    and for those before it, whoever is missing there. When more than ``window`` steps behind it
    wait for a worker, all but half a window of them are given up.
    """

    def __init__(self, window: int) -> None:
        self.finished = False
        self.last_complete = -1
        self._window = window
        self._tables = Tables()
        self._files: dict[int, dict[str, StepFile]] = {}
        self._seen: dict[int, set[str]] = {}  # also by files that cannot be read
        self._fresh: set[int] = set()
        self._settled: frozenset[int] = frozenset()
        self._own: dict[int, tuple[Mode, int]] = {}
        self._global: dict[Mode, dict[int, int]] = {}
        self._layouts: dict[Mode, dict[Layout, None]] = {mode: {} for mode in Mode}
        self._sorted: dict[Mode, list[int]] = {}

    def add(self, step: int, worker: str, index: IndexFile | None) -> None:
        """Take in an index file, None for one that cannot be read; then ``settle``."""
        self._seen.setdefault(step, set()).add(worker)
        self._fresh.add(step)
        if index is None:
            return
        file = self._tables.step_file(index)
        files = self._files.setdefault(step, {})
        files[worker] = file
        if len(files) > 1 and worker != max(files):  # workers stay in the order of their names
            self._files[step] = dict(sorted(files.items()))
        self._layouts[index.mode][file.layout] = None
        if step not in self._own:  # the first worker's word counts
            self._own[step] = (index.mode, index.mode_step)
            self._global.setdefault(index.mode, {}).setdefault(index.mode_step, step)
            self._sorted.clear()

    def settle(self, num_workers: int | None, *, finished: bool) -> None:
        """Find out what is complete; ``num_workers`` is None while that is not known."""
        self.finished = finished
        steps = self.steps()
        if finished:
            self.last_complete = max(self.last_complete, *steps[-1:], -1)
        elif num_workers is not None:
            closed = (step for step in self._fresh if len(self._seen[step]) >= num_workers)
            self.last_complete = max(self.last_complete, *closed, -1)
            waiting = steps[bisect_right(steps, self.last_complete) :]
            if len(waiting) > self._window:
                self.last_complete = waiting[-(self._window // 2) - 1]
                waiting = waiting[-(self._window // 2) :]
            self._settled = frozenset(
                complete_steps(
                    {step: self._indexes(step) for step in waiting}, num_workers, finished=False
                )
            )
        self._fresh.clear()

    def complete(self, step: int) -> bool:
        """Whether nothing more is expected for a known global step."""
        return self.finished or step <= self.last_complete or step in self._settled

    def steps(self, mode: Mode = Mode.GLOBAL) -> list[int]:
        """All known steps in order: global ones, or the mode's own numbers. Not to be changed."""
        if mode not in self._sorted:
            known: Iterable[int] = self._own
            self._sorted[mode] = sorted(known if mode is Mode.GLOBAL else self._global.get(mode, ()))
        return self._sorted[mode]

    def modes(self) -> list[Mode]:
        return [mode for mode in Mode if mode is not Mode.GLOBAL and mode in self._global]

    def global_step(self, mode: Mode, step: int) -> int | None:
        """The global step of a mode's own one; global ones are what they are, known or not."""
        return step if mode is Mode.GLOBAL else self._global.get(mode, {}).get(step)

    def mode_step(self, step: int) -> tuple[Mode, int] | None:
        return self._own.get(step)

    def files(self, step: int, mode: Mode = Mode.GLOBAL) -> Mapping[str, StepFile]:
        """Worker -> what it saved at a step, in the order of workers; empty for unknown steps."""
        number = step if mode is Mode.GLOBAL else self._global.get(mode, {}).get(step, -1)
        return self._files.get(number, _NONE)

    def workers(self) -> set[str]:
        return {worker for workers in self._seen.values() for worker in workers}

    def names(self, mode: Mode = Mode.GLOBAL) -> set[str]:
        """The tensors saved at any step, or at any step of a mode."""
        modes = Mode if mode is Mode.GLOBAL else (mode,)
        return {name for m in modes for layout in self._layouts[m] for name in layout.members}

    def has(self, name: str) -> bool:
        return any(name in layout.members for found in self._layouts.values() for layout in found)

    def state(self, step: int, mode: Mode) -> StepState:
        """What is known of a step of a mode, saved or not."""
        steps = self.steps(mode)
        position = bisect_left(steps, step)
        if position == len(steps):
            return StepState.UNAVAILABLE if self.finished else StepState.NOT_YET_AVAILABLE
        number = self.global_step(mode, steps[position])
        if number is None or not self.complete(number):
            return StepState.NOT_YET_AVAILABLE
        return StepState.AVAILABLE if steps[position] == step else StepState.UNAVAILABLE

    def _indexes(self, step: int) -> Mapping[str, IndexFile | None]:
        files = self._files.get(step, _NONE)
        return {w: files[w].index if w in files else None for w in self._seen[step]}
