"""Work done by several processes, with a bar on a terminal."""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WIDTH = 30


def work(
    what: str,
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    until: float = math.inf,
) -> Iterator[Result]:
    """The results of ``function`` (of a module) for the items, in order of completion.

    After the time ``until`` (``time.monotonic()``) no further item is begun.
    """
    todo = list(items)
    if not todo:
        return
    fresh = multiprocessing.get_context("spawn")  # PyTorch's threads do not outlive a fork
    waiting, running, done = iter(todo), set[Future[Result]](), 0
    with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=fresh) as pool:
        while True:
            room = jobs - len(running) if time.monotonic() <= until else 0
            running |= {pool.submit(function, task) for task in islice(waiting, room)}
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                done += 1
                _show(what, done, len(todo))
                yield future.result()


def _show(what: str, done: int, count: int) -> None:
    if sys.stderr.isatty():
        bar = ("█" * (_WIDTH * done // count)).ljust(_WIDTH, "·")
        end = "\n" if done == count else ""
        print(f"\r{what:12} {bar} {done}/{count}", end=end, file=sys.stderr, flush=True)
