"""The cost of ``judge=True`` for the training's process, as a share of its CPU time.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.judge [--rounds 5] [--steps 300]

A training of some 10 ms a step saves every tenth step and is judged by a child process. Counted is
the thread CPU time of what the judge does in the training's process: to start the child, to read
its lines, and to end it. On a busy machine that is exact where a difference of two trainings is
not. The child's own time is not in it.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from tocsin_hooks import Hook
from tocsin_hooks.judge import RunJudge

_SIZE = 256
_EVERY = 10  # steps
_PARTS = ("__init__", "_read", "end")


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Yield the thread CPU seconds of the judge's parts, which are summed in the block."""
    spent = dict.fromkeys(_PARTS, 0.0)

    def timed(part: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def does_timed(*args: Any) -> None:
            begun = time.thread_time()
            does(*args)
            spent[part] += time.thread_time() - begun

        return does_timed

    parts = {part: timed(part, getattr(RunJudge, part)) for part in _PARTS}
    with patch.multiple(RunJudge, **parts):
        yield spent


def training(out: Path, steps: int) -> float:
    """Return the CPU seconds of a judged training."""
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(2048, _SIZE)), np.zeros((_SIZE, _SIZE))
    y = x @ random.normal(size=(_SIZE, _SIZE))
    begun = time.process_time()
    hook = Hook(out, save_interval=_EVERY, max_overhead=1.0, judge=True)
    for _ in range(steps):
        with hook.step():
            error = x @ weight - y
            gradient = x.T @ error / len(x)
            weight -= 0.1 * gradient
            hook.save("loss", np.square(error).mean(), collection="losses")
            hook.save("gradient/w", gradient, collection="gradients")
            hook.save("w", weight, collection="weights")
    hook.close()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    logging.getLogger("tocsin").setLevel(logging.CRITICAL)
    found = []
    with TemporaryDirectory() as folder:
        for number in range(given.rounds):
            with measured() as spent:
                seconds = training(Path(folder) / str(number), given.steps)
            found.append((sum(spent.values()), seconds))
    share = statistics.median(judge / seconds for judge, seconds in found)
    print(
        f"judge=True: {share:.2%} of the training's CPU time, "
        f"{1000 * statistics.median(judge for judge, _ in found):.1f} ms of "
        f"{statistics.median(seconds for _, seconds in found):.1f} s; "
        f"{given.rounds} rounds of {given.steps} steps"
    )


if __name__ == "__main__":
    main()
