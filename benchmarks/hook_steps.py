"""Measure what a hook adds to small steps: whole trainings in pairs, with a hook and without one.

    python -m benchmarks.hook_steps [--pairs 3] [--steps 2000] [--only TEXT]

Each training is a process of its own, and those of a pair follow each other. Seconds are CPU time
of the training's thread, from the hook's attachment to its end, imports left out. ``idle`` are
steps that are neither saved nor looked at, ``after 400`` all steps after the first 400, in which
each may be looked at. ``every step`` is what the loss and a gradient norm of every step add to an
idle one: the difference to a hook whose rules read saved steps alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks._hooks_process import ROOT

LOOPS = ("1 ms", "4 ms", "10 ms", "two optimizers", "policy gradient", "Q-learning", "opponents")
HEADER = (
    f"{'loop':16}{'step':>9}{'idle':>9}{'ratio':>7}{'every step':>12}{'after 400':>11}"
    f"{'whole run':>11}{'added':>9}{'metered':>9}{'saves':>7}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", default="", help="loops whose name holds this text")
    parser.add_argument("--python", type=Path, help="has PyTorch, numpy and msgspec")
    given = parser.parse_args()
    python = given.python or pytorch()
    print(f"{platform.machine()}, medians of {given.pairs} rounds, {given.steps} steps each")
    print(HEADER)
    for loop in (each for each in LOOPS if given.only in each):
        pairs = [
            (
                train(python, loop, given.steps),
                train(python, loop, given.steps, "--hook"),
                train(python, loop, given.steps, "--hook", "--saves-only"),
            )
            for _ in range(given.pairs)
        ]
        print(_line(loop, given.steps, pairs), flush=True)


def _line(loop: str, steps: int, pairs: list[tuple[dict[str, Any], ...]]) -> str:
    def median(of: Any) -> float:
        return float(statistics.median(of(*pair) for pair in pairs))

    added = median(lambda plain, hooked, _: hooked["seconds"] - plain["seconds"])
    metered = median(lambda _, hooked, __: hooked["metered"])
    return (
        f"{loop:16}"
        f"{median(lambda plain, *_: plain['seconds']) / steps * 1e3:6.2f} ms"
        f"{median(lambda plain, hooked, _: hooked['idle'] - plain['idle']) * 1e6:6.0f} µs"
        f"{median(lambda plain, hooked, _: hooked['idle'] / plain['idle']):7.3f}"
        f"{median(lambda _, hooked, saves: hooked['idle'] - saves['idle']) * 1e6:9.1f} µs"
        f"{median(lambda plain, hooked, _: hooked['late'] / plain['late']):11.3f}"
        f"{median(lambda plain, hooked, _: hooked['seconds'] / plain['seconds']):11.3f}"
        f"{added:7.2f} s{metered / added:9.2f}"
        f"{median(lambda _, hooked, __: hooked['saved']):7.0f}"
    )


def train(python: Path, loop: str, steps: int, *options: str) -> dict[str, Any]:
    """Train one of LOOPS in a process of its own; return what it prints."""
    done = subprocess.run(
        [python, "-m", "benchmarks._hooks_steps_process", loop, "--steps", str(steps), *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'rules_layer'}:{ROOT / 'hooks'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def pytorch() -> Path:
    """Return a Python interpreter with PyTorch; install it the first time."""
    from local.interpreter import interpreter

    requirements = ROOT / "tests" / "frameworks" / "torch-requirements.txt"
    return interpreter(ROOT / ".venv-torch", requirements)


if __name__ == "__main__":
    main()
