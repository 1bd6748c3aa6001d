"""Finds the complete steps of a run."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.tensors.index import IndexFile

Steps = Mapping[int, Mapping[str, IndexFile | None]]
"""Global step -> worker -> its index file, or None where that cannot be read."""


def settled_workers(steps: Steps) -> dict[int, frozenset[str]]:
    """For each step, the workers from which nothing more is expected there.

    A worker is settled at a step if it has a file of it, readable or not, or a readable one of a
    later step that says that it uploaded none in between.
    """
    settled: dict[int, frozenset[str]] = {}
    follows: dict[str, int] = {}  # worker -> the earliest step that its later files follow on
    for step in sorted(steps, reverse=True):
        present = steps[step]
        settled[step] = frozenset(present) | {w for w, before in follows.items() if before < step}
        for worker, index in present.items():
            if index is not None and index.meta is not None:
                before = -1 if index.meta.prev_step is None else index.meta.prev_step
                follows[worker] = min(before, follows.get(worker, before))
    return settled


def complete_steps(steps: Steps, num_workers: int, *, finished: bool) -> list[int]:
    """Return the steps for which nothing more is expected, in order.

    A step is complete when the run is ``finished``, when all workers have written it or one
    later step, or when every worker is settled there.
    """
    if finished:
        return sorted(steps)
    settled = settled_workers(steps)
    closed = max((step for step in steps if len(steps[step]) >= num_workers), default=-1)
    return [s for s in sorted(steps) if s <= closed or len(settled[s]) >= num_workers]
