"""Work done by several processes, with a bar for whoever sits at a terminal."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_WIDTH = 30


def work(
    what: str, function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int
) -> Iterator[Result]:
    """The results of ``function`` (of a module) for the tasks, in order of completion."""
    todo = list(tasks)
    if not todo:
        return
    fresh = multiprocessing.get_context("spawn")  # PyTorch's threads do not outlive a fork
    with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=fresh) as pool:
        futures = [pool.submit(function, task) for task in todo]
        for done, future in enumerate(as_completed(futures), start=1):
            _show(what, done, len(todo))
            yield future.result()


def _show(what: str, done: int, count: int) -> None:
    if sys.stderr.isatty():
        bar = ("█" * (_WIDTH * done // count)).ljust(_WIDTH, "·")
        end = "\n" if done == count else ""
        print(f"\r{what:12} {bar} {done}/{count}", end=end, file=sys.stderr, flush=True)
