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
    """What the index files that were read so far say. It reads nothing by itself.

    ``last_complete`` is the greatest step that all workers have saved: nothing comes any more
    for it and for those before it, whoever is missing there. After more than ``window`` known
    steps behind it, the older half of a window is given up waiting for.
    """

    def __init__(self, window: int) -> None:
        self.last_complete = -1
        self.finished = False
        self._window = window
        self._tables = Tables()
        self._files: dict[int, dict[str, StepFile]] = {}
        self._seen: dict[int, set[str]] = {}  # also by files that cannot be read
        self._own: dict[int, tuple[Mode, int]] = {}
        self._global: dict[Mode, dict[int, int]] = {}
        self._layouts: dict[Mode, dict[Layout, None]] = {mode: {} for mode in Mode}
        self._sorted: dict[Mode, list[int]] = {}
        self._settled: frozenset[int] = frozenset()
        self._fresh: set[int] = set()

    # -- what is new -------------------------------------------------------------------------

    def add(self, step: int, worker: str, index: IndexFile | None) -> None:
        """Take in one index file, None for one that cannot be read; ``settle`` comes after."""
        self._seen.setdefault(step, set()).add(worker)
        self._fresh.add(step)
        if index is None:
            return
        file = self._tables.step_file(index)
        files = self._files.setdefault(step, {})
        files[worker] = file
        if len(files) > 1 and worker != max(files):  # in the order of their names
            self._files[step] = dict(sorted(files.items()))
        self._layouts[index.mode][file.layout] = None
        if step not in self._own:
            self._own[step] = (index.mode, index.mode_step)
            self._sorted.clear()
        if index.mode is not Mode.GLOBAL:
            self._global.setdefault(index.mode, {}).setdefault(index.mode_step, step)

    def settle(self, num_workers: int | None, *, finished: bool) -> None:
        """Find out what is complete now; ``num_workers`` is None while it is not known."""
        self.finished = finished
        if num_workers is not None:
            closed = [s for s in self._fresh if len(self._seen[s]) >= num_workers]
            self.last_complete = max(closed, default=self.last_complete) if closed else (
                self.last_complete
            )
        steps = self.steps(Mode.GLOBAL)
        if finished:
            self.last_complete = steps[-1] if steps else self.last_complete
        self._fresh.clear()
