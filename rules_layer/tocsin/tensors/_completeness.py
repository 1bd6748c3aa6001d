"""Which steps of a run are complete."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.tensors._index import IndexFile

Steps = Mapping[int, Mapping[str, IndexFile | None]]
"""Global step -> worker -> its index file, or None where that cannot be read."""


def complete_steps(steps: Steps, num_workers: int, *, finished: bool) -> list[int]:
    """The steps of which nothing more is expected, in order.

    A step is complete when the run is ``finished``; when all workers have written it or one
    later step; or when every worker is settled there: it has the step, or said in the index file
    of a later one that it uploaded none in between.
    """
    if finished:
        return sorted(steps)
    closed = max(
        (step for step, present in steps.items() if len(present) >= num_workers), default=-1
    )
    complete = []
    reaches: dict[str, int] = {}  # worker -> the earliest step that its later files follow on
    for step in sorted(steps, reverse=True):
        present = steps[step]
        settled = present.keys() | {worker for worker, floor in reaches.items() if floor < step}
        if step <= closed or len(settled) >= num_workers:
            complete.append(step)
        for worker, index in present.items():
            if index is not None and index.meta is not None:
                previous = -1 if index.meta.prev_step is None else index.meta.prev_step
                reaches[worker] = min(previous, reaches.get(worker, previous))
    return complete[::-1]
