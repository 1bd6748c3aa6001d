"""The starts of a job that wrote into one run, and which of their files count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from tocsin.tensors.index import IndexFile, RunMeta

_MOST_FOLLOWED = 500  # files of a start, one after the other
CLOCK_ERROR = 60.0  # seconds by which the clocks of two hosts may differ


class Written(Protocol):
    """An index file, or the part of it that says who wrote it."""

    @property
    def step(self) -> int: ...

    @property
    def worker(self) -> str: ...

    @property
    def meta(self) -> RunMeta | None: ...


@dataclass(frozen=True)
class Starts:
    """``until``: the run id of each earlier start, and the first of its steps that does not count
    any more. ``current``: the run id of the last start; several if each worker made its own.
    """

    until: Mapping[str, int]
    current: frozenset[str]

    def keeps(self, file: Written) -> bool:
        """Return whether a file belongs to the last start, or to the steps that it resumed from."""
        until = None if file.meta is None else self.until.get(file.meta.run_id)
        return until is None or file.step < until


def starts_of(
    files: Iterable[Written], file_at: Callable[[int, str], Written | None] | None = None
) -> Starts:
    """Return the starts that wrote ``files``. Files without a run id always count.

    A start that did not resume replaces all earlier starts. One that resumed replaces what they
    wrote at its own first step and later, for all workers.

    The times at which two starts began decide which is later, if they are further apart than
    clocks may be wrong: files of an older start can be copied over those of a later one. Else the
    files decide: if the ``prev_step`` of a file belongs to another start now, that other start is
    later, because it has overwritten that step. If nothing was overwritten, the times decide. Only
    starts that have a worker in common are compared: workers of one start may each have their own
    run id.

    ``file_at`` finds the file of a step and worker that is not in ``files``: for parts of a run.
    """
    known = [file for file in files if file.meta is not None]
    if file_at is None and _one_each(known):
        return Starts({}, frozenset(file.meta.run_id for file in known if file.meta))
    if file_at is not None:
        known += _before(known, file_at)
    starts = _facts(known)
    _guess(starts, known)
    until: dict[str, int] = {}
    replaced: dict[str, int] = {}  # worker -> the first step that later starts replace
    for run_id in _last_first(starts):
        start = starts[run_id]
        limits = [replaced[worker] for worker in start.workers if worker in replaced]
        if limits:
            until[run_id] = min(limits)
        first = start.first if start.resumed else 0
        for worker in start.workers:
            replaced[worker] = min(first, replaced.get(worker, first))
    return Starts(until, frozenset(starts.keys() - until.keys()))


def is_older(began: float | None, other: float | None) -> bool:
    """Return whether a start that began then is older than another, however wrong their clocks
    are."""
    return began is not None and other is not None and began + CLOCK_ERROR < other


def first_of_start(file: IndexFile, file_at: Callable[[int, str], IndexFile | None]) -> int:
    """Return the first step of the start that wrote ``file``, along ``prev_step`` as far as it
    leads.

    Of a start with very many steps, the step at which it can have begun.
    """
    for _ in range(_MOST_FOLLOWED):
        if file.meta is None or (before := file.meta.prev_step) is None or before >= file.step:
            return file.step
        earlier = file_at(before, file.worker)
        if earlier is None or earlier.run_id != file.run_id:
            return file.step
        file = earlier
    resumed_from = file.meta.resumed_from if file.meta else None
    return 0 if resumed_from is None else min(resumed_from + 1, file.step)


@dataclass
class _Start:
    """``later`` are starts that have overwritten a file of this one."""

    first: int
    began: float | None = None
    resumed: bool = False
    workers: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)

    def join(self, worker: str, meta: RunMeta) -> None:
        """Another worker of it, by one of that worker's files."""
        self.workers.add(worker)
        if meta.started is not None:
            self.began = min(meta.started, self.began or inf)
        self.resumed = self.resumed or meta.resumed_from is not None


def _one_each(files: Iterable[Written]) -> bool:
    """Return whether every worker has files of one start only, as in most runs."""
    start_of: dict[str, str] = {}
    for file in files:
        meta = file.meta
        if meta and start_of.setdefault(file.worker, meta.run_id) != meta.run_id:
            return False
    return True


def _before(
    files: Iterable[Written], file_at: Callable[[int, str], Written | None]
) -> Iterator[Written]:
    """The files that the first ones of each start and worker name as their ``prev_step``."""
    for step, worker in places_before(files):
        found = file_at(step, worker)
        if found is not None and found.meta is not None:
            yield found


def places_before(files: Iterable[Written]) -> Iterator[tuple[int, str]]:
    """Yield the step and worker of each file, not among ``files``, that shows what came before
    them."""
    first: dict[tuple[str, str], Written] = {}
    places = set()
    for file in files:
        if file.meta is None:
            continue
        places.add((file.step, file.worker))
        key = file.meta.run_id, file.worker
        if key not in first or file.step < first[key].step:
            first[key] = file
    for file in first.values():
        step = file.meta.prev_step if file.meta else None
        if step is not None and (step, file.worker) not in places:
            yield step, file.worker


def _facts(files: Iterable[Written]) -> dict[str, _Start]:
    starts: dict[str, _Start] = {}
    owner: dict[tuple[str, int], str] = {}
    for file in files:
        if (meta := file.meta) is not None:
            owner[file.worker, file.step] = meta.run_id
            start = starts.get(meta.run_id)
            if start is None:
                start = starts[meta.run_id] = _Start(file.step)
            if file.worker not in start.workers:
                start.join(file.worker, meta)
            if file.step < start.first:
                start.first = file.step
    for file in files:
        if (meta := file.meta) is not None and meta.prev_step is not None:
            start, other = starts[meta.run_id], owner.get((file.worker, meta.prev_step))
            if other is None or other == meta.run_id:
                continue
            if not is_older(starts[other].began, start.began):
                start.later.add(other)
    return starts


def _guess(starts: Mapping[str, _Start], files: Iterable[Written]) -> None:
    """A start without a time that resumed from what was replaced since is older than that."""
    if not any(start.resumed and start.began is None for start in starts.values()):
        return
    before: Written | None = None
    for file in sorted(files, key=lambda file: (file.worker, file.step)):
        if file.meta is None:
            continue
        start = starts[file.meta.run_id]
        begins = start.resumed and start.began is None and file.meta.prev_step is None
        if begins and before is not None and before.meta and before.worker == file.worker:
            later = starts[before.meta.run_id].later - {file.meta.run_id}
            start.later |= {other for other in later if starts[other].first <= before.step}
        before = file


def _last_first(starts: Mapping[str, _Start]) -> list[str]:
    """The run ids, that of the last start first."""

    def age(run_id: str) -> tuple[float, bool, int, str]:
        start = starts[run_id]
        return -(start.began or 0.0), not start.resumed, -start.first, run_id

    sorter = TopologicalSorter({run_id: start.later for run_id, start in starts.items()})
    try:
        sorter.prepare()
    except CycleError:  # two jobs wrote at the same time
        return sorted(starts, key=age)
    order: list[str] = []
    ready: list[tuple[float, bool, int, str]] = []
    while sorter.is_active():
        for run_id in sorter.get_ready():
            heappush(ready, age(run_id))
        last = heappop(ready)[-1]
        order.append(last)
        sorter.done(last)
    return order
