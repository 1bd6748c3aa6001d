"""Compare small trainings on an idle machine with the same beside busy processes: their saved steps
and verdicts.

    python -m benchmarks.loaded [--busy 10] [--steps 2000] [--only TEXT]

The limit on the hook's time is measured in CPU time of the training's thread, so that other
processes change neither. Each training is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._hooks_process import ROOT
from benchmarks.hook_steps import LOOPS, pytorch, train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=10, help="busy processes")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--only", default="", help="loops whose name holds this text")
    parser.add_argument("--python", type=Path, help="has PyTorch, numpy and msgspec")
    given = parser.parse_args()
    python = given.python or pytorch()
    print(f"{platform.machine()}, {given.steps} steps each, beside {given.busy} busy processes")
    print(f"{'loop':16}{'saves':>7}{'loaded':>8}{'ratio':>7}  verdicts")
    for loop in (each for each in LOOPS if given.only in each):
        alone = _saves_and_statuses(python, loop, given.steps)
        with _busy(given.busy):
            loaded = _saves_and_statuses(python, loop, given.steps)
        print(_line(loop, alone, loaded), flush=True)


def _line(loop: str, alone: tuple[int, Any], loaded: tuple[int, Any]) -> str:
    differ = sorted(rule for rule in alone[1] if alone[1][rule] != loaded[1].get(rule))
    verdicts = f"differ: {', '.join(differ)}" if differ else "the same"
    return f"{loop:16}{alone[0]:7}{loaded[0]:8}{loaded[0] / alone[0]:7.2f}  {verdicts}"


def _saves_and_statuses(python: Path, loop: str, steps: int) -> tuple[int, dict[str, str]]:
    with TemporaryDirectory() as folder:
        found = train(python, loop, steps, "--hook", "--out", folder)
        command = [sys.executable, "-m", "tocsin", "check", f"{folder}/run", "--json"]
        checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return found["saved"], _statuses(json.loads(checked.stdout))


def _statuses(checked: dict[str, Any]) -> dict[str, str]:
    return {
        each["RuleConfigurationName"]: each["RuleEvaluationStatus"] for each in checked["rules"]
    }


@contextmanager
def _busy(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


if __name__ == "__main__":
    main()
