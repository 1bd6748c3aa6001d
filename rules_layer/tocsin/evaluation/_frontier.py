"""Which of the steps that lie in the bucket can be evaluated now. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tocsin.tensors import IndexFile

GRACE_SECONDS = 5.0  # for runs without prev_step: how long an older step may still arrive
HOLD_SECONDS = 60.0  # how long a gap or a missing worker may hold everything behind it


@dataclass(frozen=True)
class Seen:
    """An index file in the bucket, and when it was written (seconds since the epoch)."""

    file: IndexFile
    modified: float


@dataclass(frozen=True)
class Ready:
    """A step whose time has come: its files in the order of workers; none of a lost step."""

    step: int
    files: tuple[Seen, ...]
    missing: int


@dataclass(frozen=True)
class Plan:
    """The steps to evaluate, in order, and when to look again if some are held."""

    ready: tuple[Ready, ...]
    wake_at: float | None = None


def plan(
    seen: Sequence[Seen],
    *,
    frontier: int,
    num_workers: int | None,
    now: float,
    ended: bool,
    refused: Collection[tuple[int, str]] = (),
) -> Plan:
    """The steps beyond ``frontier`` that are complete, given up, or closed by the run's end.

    A worker is settled at a step if it has the step, or a later one whose ``prev_step`` lies
    before it; files that were ``refused`` settle their worker too. ``num_workers`` None means
    that no collections file has told it yet.
    """
    workers = num_workers or 1
    ready: list[Ready] = []
    for facts in _facts(seen, frontier, frozenset(refused), workers):
        due = 0.0 if ended else _due(facts, num_workers)
        if now < due:
            return Plan(tuple(ready), wake_at=due)
        ready.append(Ready(facts.step, facts.files, max(0, workers - len(facts.settled))))
    return Plan(tuple(ready))


@dataclass(frozen=True)
class _Facts:
    """What the files at and behind a step say of it."""

    step: int
    files: tuple[Seen, ...]
    settled: frozenset[str]  # workers from which nothing more is to be expected at this step
    earliest: float  # when the first of these files was written
    complete: float | None  # when a step, this or a later one, first had all its workers
    chained: bool  # every one of them says what its worker uploaded before


def _facts(
    seen: Sequence[Seen], frontier: int, refused: frozenset[tuple[int, str]], workers: int
) -> list[_Facts]:
    """Of each step known to exist, by its files or by a later file's ``prev_step``, in order."""
    files: dict[int, list[Seen]] = {item.file.step: [] for item in seen}
    for item in seen:
        files[item.file.step].append(item)
        before = item.file.meta.prev_step if item.file.meta else None
        if before is not None and before > frontier:
            files.setdefault(before, [])
    facts = []
    reaches_back: dict[str, int] = {}  # per worker: the least prev_step of its later files
    earliest, complete, chained = math.inf, None, True
    for step in sorted(files, reverse=True):
        here = sorted(files[step], key=lambda item: item.file.worker)
        settled = {worker for worker, prev in reaches_back.items() if prev < step}
        settled |= {item.file.worker for item in here}
        settled |= {worker for at, worker in refused if at == step}
        times = [item.modified for item in here]
        earliest = min([earliest, *times])
        if len(here) >= workers:
            complete = min(max(times), complete or math.inf)
        chained = chained and all(item.file.meta for item in here)
        facts.append(_Facts(step, tuple(here), frozenset(settled), earliest, complete, chained))
        for item in here:
            if (meta := item.file.meta) is not None:
                prev = -1 if meta.prev_step is None else meta.prev_step
                worker = item.file.worker
                reaches_back[worker] = min(prev, reaches_back.get(worker, prev))
    return facts[::-1]


def _due(facts: _Facts, num_workers: int | None) -> float:
    """From when on the step may be evaluated: 0 is at once."""
    give_up = facts.earliest + HOLD_SECONDS
    if num_workers is None:
        return give_up
    if facts.chained:
        return 0.0 if len(facts.settled) >= num_workers else give_up
    return give_up if facts.complete is None else min(give_up, facts.complete + GRACE_SECONDS)
