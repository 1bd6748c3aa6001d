"""The cost of ``judge=True`` for the training's process: CPU time with and without it.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.judge [--rounds 9] [--steps 400]

A training saves the same tensors with and without a judge, in turns, in one process. The CPU time
is that of all threads of this process, from making the hook to closing it; the judge's own process
is not in it.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from tocsin_hooks import Hook

_SIZE = 256
_EVERY = 10  # steps


def training(out: Path, steps: int, *, judge: bool) -> float:
    """Return the CPU seconds of a training of some 10 ms a step that saves every tenth one."""
    random = np.random.default_rng(0)
    x, weight = random.normal(size=(2048, _SIZE)), np.zeros((_SIZE, _SIZE))
    y = x @ random.normal(size=(_SIZE, _SIZE))
    begun = time.process_time()
    hook = Hook(out, save_interval=_EVERY, max_overhead=1.0, judge=judge)
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


def cost(rounds: int, steps: int) -> tuple[float, float, float]:
    """Return the quartiles of the ratio of CPU times, with a judge to without one."""
    ratios = []
    with TemporaryDirectory() as folder:
        for number in range(rounds):
            order = (False, True) if number % 2 else (True, False)
            taken = {
                judge: training(Path(folder) / f"{number}-{judge}", steps, judge=judge)
                for judge in order
            }
            ratios.append(taken[True] / taken[False])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return low, middle, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    logging.getLogger("tocsin").setLevel(logging.CRITICAL)
    low, middle, high = cost(given.rounds, given.steps)
    print(
        f"judge=True: {middle - 1:+.2%} CPU time of the training's process "
        f"({low - 1:+.2%} to {high - 1:+.2%}), {given.rounds} rounds of {given.steps} steps"
    )


if __name__ == "__main__":
    main()
