"""Measure what a hook adds to small steps: whole trainings in pairs, with a hook and without one.

    python -m benchmarks.hook_steps [--pairs 3] [--steps 2000] [--only TEXT]

Each training is a process of its own, and those of a pair follow each other. Seconds are CPU time
of the training's thread, from the hook's attachment to its end, imports left out. ``idle`` is the
median difference of the steps that are neither saved nor looked at: both trainings of a pair do the
same. ``after 400`` are all steps after the first 400, in which each may be looked at. ``every
step`` is what the loss and a gradient norm of every step add to an idle one: the difference to a
hook whose rules read saved steps alone.
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

LOOKED = 400  # steps, in which a hook may look at each
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

    plain_step = median(lambda plain, *_: statistics.median(plain["each"]))
    idle = median(lambda plain, hooked, _: _idle(plain, hooked))
    added = median(lambda plain, hooked, _: hooked["seconds"] - plain["seconds"])
    metered = median(lambda _, hooked, __: hooked["metered"])
    return (
        f"{loop:16}"
        f"{plain_step * 1e3:6.2f} ms"
        f"{idle * 1e6:6.0f} µs"
        f"{1 + idle / plain_step:7.3f}"
        f"{(idle - median(lambda plain, _, saves: _idle(plain, saves))) * 1e6:9.1f} µs"
        f"{median(lambda plain, hooked, _: _late(hooked) / _late(plain)):11.3f}"
        f"{median(lambda plain, hooked, _: hooked['seconds'] / plain['seconds']):11.3f}"
        f"{added:7.2f} s{metered / added:9.2f}"
        f"{median(lambda _, hooked, __: len(hooked['saved'])):7.0f}"
    )


def _late(training: dict[str, Any]) -> float:
    return float(sum(training["each"][LOOKED:]))


def _idle(plain: dict[str, Any], hooked: dict[str, Any]) -> float:
    """Return the seconds that are added to a step that is not saved, nor beside one that is."""
    near = {at + by for at in hooked["saved"] for by in (-1, 0, 1)}
    steps = [*enumerate(zip(plain["each"], hooked["each"], strict=True))][LOOKED:]
    return statistics.median(with_it - bare for at, (bare, with_it) in steps if at not in near)


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
