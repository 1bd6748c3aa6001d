"""The steps of a run, their modes, and which of them are complete."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import chain
from types import MappingProxyType

from tocsin.model import Mode
from tocsin.tensors import IndexFile, Starts, complete_steps, starts_of
from tocsin.trial.state import StepState
from tocsin.trial.table import Layout, StepFile, Tables

_GLOBAL = Mode.GLOBAL  # found quicker than in its class


class Catalog:
    """The steps and tensors of the index files that were added. It reads nothing by itself.

    ``last_complete`` is the greatest step that all workers have saved: nothing more comes for it
    and for those before it, even if a worker is missing there. When more than ``window`` later
    steps wait for a worker, all but half a window of them are given up.

    If a job was started several times, it knows the last start, and the steps that this one
    resumed from.
    """

    def __init__(self, window: int) -> None:
        self.finished = False
        self.last_complete = -1
        self.workers: set[str] = set()
        self._window = window
        self._tables = Tables()
        self._starts = Starts({}, frozenset())
        self._started: set[tuple[str, str]] = set()  # worker and run id
        self._compared: set[tuple[str, str]] = set()  # those of which it is known what counts
        self._files: dict[int, tuple[StepFile, ...]] = {}
        self._unreadable: dict[int, set[str]] = {}
        self._fresh: set[int] = set()
        self._settled: frozenset[int] = frozenset()
        self._global: dict[Mode, dict[int, int]] = {}
        self._layouts: dict[Mode, set[Layout]] = {mode: set() for mode in Mode}
        self._names: dict[Mode, set[str]] = {mode: set() for mode in Mode}
        self._sorted: dict[Mode, list[int]] = {}

    def add(self, step: int, worker: str, index: IndexFile | None) -> None:
        """Add an index file, None for one that cannot be read; then ``settle``."""
        if index is not None and index.meta is not None:
            if not self._starts.keeps(index):
                return
            self._started.add((worker, index.meta.run_id))
        self.workers.add(worker)
        self._fresh.add(step)
        known = self._files.get(step, ())
        others = [file for file in known if file.worker != worker]
        if index is None:
            if len(others) == len(known):
                self._unreadable.setdefault(step, set()).add(worker)
            return
        self._unreadable.get(step, set()).discard(worker)
        self._insert(self._tables.step_file(index), others)

    def _insert(self, file: StepFile, others: Iterable[StepFile]) -> None:
        """Add a file to the ``others`` of its step."""
        if file.layout not in self._layouts[file.mode]:
            self._layouts[file.mode].add(file.layout)
            self._names[file.mode].update(file.layout.members)
        if file.step not in self._files:  # the first worker's word on the mode counts
            self._global.setdefault(file.mode, {}).setdefault(file.mode_step, file.step)
            self._sorted.clear()
        self._files[file.step] = tuple(sorted([*others, file], key=lambda file: file.worker))

    def drop_replaced(self) -> None:
        """Forget the files that a later start of the job replaces, if another start was added."""
        one_each = len({worker for worker, _ in self._started}) == len(self._started)
        if one_each or self._started == self._compared:
            return
        files = list(chain.from_iterable(self._files.values()))
        found = starts_of(files)
        before = self._starts.until
        until = {start: min(at, before.get(start, at)) for start, at in found.until.items()}
        self._starts = Starts({**before, **until}, found.current)
        self._begin_again(filter(self._starts.keeps, files))

    def _begin_again(self, files: Iterable[StepFile]) -> None:
        """Know these files, and none of those before."""
        self.workers = {worker for missing in self._unreadable.values() for worker in missing}
        self.last_complete = -1
        self._started.clear()
        self._files.clear()
        self._global.clear()
        self._sorted.clear()
        for mode in Mode:
            self._layouts[mode].clear()
            self._names[mode].clear()
        for file in files:
            self.workers.add(file.worker)
            if file.meta is not None:
                self._started.add((file.worker, file.meta.run_id))
            self._insert(file, self._files.get(file.step, ()))
        self._compared = set(self._started)
        self._fresh = set(self._files)
        self._settled = frozenset()

    @property
    def current_starts(self) -> Set[str]:
        """The run ids of the last start of the job, one or each worker's own."""
        return {run_id for _, run_id in self._started} - self._starts.until.keys()

    def settle(self, num_workers: int | None, *, finished: bool) -> None:
        """Find out what is complete; ``num_workers`` is None while that is not known."""
        self.finished = finished
        self.drop_replaced()
        steps = self.steps()
        if finished:
            self.last_complete = max(self.last_complete, steps[-1] if steps else -1)
        elif num_workers is not None:
            closed = (step for step in self._fresh if self._count(step) >= num_workers)
            self.last_complete = max(self.last_complete, max(closed, default=-1))
            waiting = steps[bisect_right(steps, self.last_complete) :]
            if len(waiting) > self._window:
                given_up = len(waiting) - self._window // 2
                self.last_complete = waiting[given_up - 1]
                waiting = waiting[given_up:]
            seen = {step: self._seen(step) for step in waiting}
            self._settled = frozenset(complete_steps(seen, num_workers, finished=False))
            self._fresh.clear()

    @property
    def even(self) -> bool:
        """Return whether no worker is missing at the last step."""
        steps = self.steps()
        return not steps or steps[-1] <= self.last_complete

    def complete(self, step: int) -> bool:
        """Return whether nothing more is expected for a known global step."""
        return self.finished or step <= self.last_complete or step in self._settled

    def steps(self, mode: Mode = Mode.GLOBAL) -> list[int]:
        """Return all known steps in order: global ones, or the mode's own numbers. Not to be
        changed."""
        if mode not in self._sorted:
            own: Iterable[int] = self._files if mode is Mode.GLOBAL else self._global.get(mode, ())
            self._sorted[mode] = sorted(own)
        return self._sorted[mode]

    def complete_steps(self, mode: Mode = Mode.GLOBAL) -> list[int]:
        """Return the known steps, in order, for which nothing more is expected."""
        steps = self.steps(mode)
        if self.finished:
            return steps.copy()
        if mode is Mode.GLOBAL:
            closed = bisect_right(steps, self.last_complete)
            return steps[:closed] + [step for step in steps[closed:] if step in self._settled]
        return [step for step in steps if self.complete(self._global[mode][step])]

    def modes(self) -> list[Mode]:
        return [mode for mode in Mode if mode is not Mode.GLOBAL and mode in self._global]

    def global_step(self, mode: Mode, step: int) -> int | None:
        """Return the global step of a mode's own one; global ones are what they are, known or
        not."""
        return step if mode is Mode.GLOBAL else self._global.get(mode, {}).get(step)

    def mode_step(self, step: int) -> tuple[Mode, int] | None:
        """Return the mode of a global step, and its number there."""
        files = self._files.get(step)
        return (files[0].mode, files[0].mode_step) if files else None

    @property
    def global_steps(self) -> Mapping[Mode, Mapping[int, int]]:
        """Mode → the mode's own step → global step, for each mode but GLOBAL."""
        return {mode: MappingProxyType(self._global[mode]) for mode in self.modes()}

    def files(self, step: int, mode: Mode = Mode.GLOBAL) -> tuple[StepFile, ...]:
        """Return the files of a step, in the order of workers; none for an unknown step."""
        number = step if mode is _GLOBAL else self._global.get(mode, {}).get(step, -1)
        return self._files.get(number, ())

    def names(self, mode: Mode = Mode.GLOBAL) -> set[str]:
        """Return the tensors saved at any step, or at any step of a mode."""
        return set().union(*self._names.values()) if mode is Mode.GLOBAL else self._names[mode]

    def has(self, name: str) -> bool:
        return any(name in names for names in self._names.values())

    def state(self, step: int, mode: Mode) -> StepState:
        """Return the state of a step of a mode, saved or not."""
        steps = self.steps(mode)
        position = bisect_left(steps, step)
        if position == len(steps):
            return StepState.UNAVAILABLE if self.finished else StepState.NOT_YET_AVAILABLE
        number = self.global_step(mode, steps[position])
        if number is None or not self.complete(number):
            return StepState.NOT_YET_AVAILABLE
        return StepState.AVAILABLE if steps[position] == step else StepState.UNAVAILABLE

    def _count(self, step: int) -> int:
        return len(self._files.get(step, ())) + len(self._unreadable.get(step, ()))

    def _seen(self, step: int) -> dict[str, IndexFile | None]:
        """Worker -> what its index file says of the run, for all that have written one."""
        seen: dict[str, IndexFile | None] = dict.fromkeys(self._unreadable.get(step, ()))
        return seen | {file.worker: file.head() for file in self._files.get(step, ())}


class ModeSteps(Mapping[int, tuple[Mode, int]]):
    """Global step → its mode and its number there, as a catalog knows them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getitem__(self, step: int) -> tuple[Mode, int]:
        if (found := self._catalog.mode_step(step)) is None:
            raise KeyError(step)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._catalog.steps())

    def __len__(self) -> int:
        return len(self._catalog.steps())
