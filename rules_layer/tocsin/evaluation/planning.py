"""Look: which steps are ready, and until when the others are held. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tocsin.rules import Step
from tocsin.tensors import IndexFile, settled_workers

GRACE_SECONDS = 5.0  # for runs without prev_step: how long an older step may still arrive
HOLD_SECONDS = 60.0  # how long a gap or a missing worker may hold all later steps


@dataclass(frozen=True)
class FoundFile:
    """An index file in the bucket, and when it was written (seconds since the epoch)."""

    file: IndexFile
    modified: float


@dataclass(frozen=True)
class ReadyStep:
    """A step to evaluate: its files in the order of workers, and how many workers are missing.

    A lost step has no files.
    """

    step: int
    files: Sequence[FoundFile]
    missing: int

    @cached_property
    def alike(self) -> Sequence[FoundFile]:
        """The files of the first worker's mode and mode step: only these are one step.

        Where one process evaluates and the others wait, its later steps have larger numbers than
        the same steps of theirs, and may share one with another step.
        """
        first = self.files[0].file
        which = first.mode, first.mode_step
        return tuple(f for f in self.files if (f.file.mode, f.file.mode_step) == which)

    @cached_property
    def without_tensors(self) -> Step:
        """The step as rules see it, if it has files, without its tensors."""
        first, times = self.files[0].file, {f.file.worker: f.modified for f in self.alike}
        return Step(self.step, first.mode, first.mode_step, max(times.values()), times=times)


@dataclass(frozen=True)
class StepPlan:
    """The steps to evaluate, in order, and when to look again if some are held."""

    ready: Sequence[ReadyStep]
    wake_at: float | None = None


def plan(
    found: Sequence[FoundFile],
    *,
    frontier: int,
    num_workers: int | None,
    now: float,
    ended: bool,
    refused: Collection[tuple[int, str]] = (),
    given_up: int = 0,
) -> StepPlan:
    """Return the steps after ``frontier`` that are complete, given up, or closed by the run's end.

    A step is complete when all workers are settled there; a file that was ``refused`` (step and
    worker) settles its worker, too. A run without ``prev_step`` does not show what is missing: its
    steps wait for GRACE_SECONDS after they, or later ones, have all workers. ``num_workers`` None
    means that no collections file has been read yet. So many workers as are ``given_up`` are
    missing without a wait.
    """
    workers = num_workers or 1
    files: dict[int, dict[str, FoundFile]] = {}
    for item in sorted(found, key=lambda item: item.file.worker):
        files.setdefault(item.file.step, {})[item.file.worker] = item
        before = item.file.meta.prev_step if item.file.meta else None
        if before is not None and before > frontier:
            files.setdefault(before, {})  # uploaded, but not there
    present: dict[int, dict[str, IndexFile | None]] = {step: {} for step in files}
    for step, worker in refused:
        if step in present:
            present[step][worker] = None
    for item in found:
        present[item.file.step][item.file.worker] = item.file
    settled = settled_workers(present)
    awaited = None if num_workers is None else max(1, num_workers - given_up)
    due = dict(_due(files, settled, awaited))
    ready: list[ReadyStep] = []
    for step in sorted(files):
        if not ended and now < due[step]:
            return StepPlan(ready, wake_at=due[step])
        missing = max(0, workers - len(settled[step]))
        ready.append(ReadyStep(step, tuple(files[step].values()), missing))
    return StepPlan(ready)


def held_until(
    found: Iterable[tuple[str, float]], workers: int, refused: Iterable[str], now: float
) -> float | None:
    """Until when no step after the frontier can be ready, as far as a listing shows it; else None.

    ``found`` is the worker and the time of each file, ``refused`` are the workers whose files were.
    While a worker has no file there at all, no step has all ``workers``.
    """
    times = dict[str, float]()
    for worker, modified in found:
        times[worker] = min(modified, times.get(worker, modified))
    until = min(times.values(), default=0.0) + HOLD_SECONDS
    return until if now < until and len({*times, *refused}) < workers else None


def _due(
    files: Mapping[int, Mapping[str, FoundFile]],
    settled: Mapping[int, Collection[str]],
    num_workers: int | None,
) -> Iterator[tuple[int, float]]:
    """For each step, from the last one on, when it may be evaluated: 0 is at once."""
    earliest = complete = math.inf  # when a file of it or a later step was written, and a whole one
    chained = True  # whether all these files say what their workers uploaded before
    for step in sorted(files, reverse=True):
        here = files[step].values()
        times = [item.modified for item in here]
        earliest = min([earliest, *times])
        if len(here) >= (num_workers or 1):
            complete = min(complete, max(times))
        chained = chained and all(item.file.meta for item in here)
        give_up = earliest + HOLD_SECONDS
        if num_workers is None:
            yield step, give_up
        elif chained:
            yield step, 0.0 if len(settled[step]) >= num_workers else give_up
        else:
            yield step, min(give_up, complete + GRACE_SECONDS)
