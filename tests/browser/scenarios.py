"""The runs of the demo's scenarios, without an AWS: their trainings write them to folders.

``python -m tests.browser.scenarios FOLDER`` needs the environment of the demo.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.tensors import STOP, WATCH

if TYPE_CHECKING:
    from local.scenarios import Scenario

ROOT = Path(__file__).parents[2]
_TRAINING, _MACHINE = "debug-output", "profiler-output"
DEMOS = {
    "demo-diverging": _TRAINING,
    "demo-relaunch": _TRAINING,
    "demo-healthy": _TRAINING,
    "demo-vanishing": _TRAINING,
    "demo-outside-sagemaker": _TRAINING,
    "demo-slow-loader": _MACHINE,
    "demo-hang": _MACHINE,
    "demo-storm": _TRAINING,
    "demo-replay": _TRAINING,
}
"""The run that each scenario shows. The environment of the browser has nothing of the demo's."""

_MINUTE = "0.1"  # seconds
_HANGS = 2.0  # seconds
_QUICK = {
    "slow-loader": ("--steps", "160", "--loader-seconds", "0.03"),
    "hang": ("--steps", "60", "--hang-at", "30", "--poll-interval", "0.1"),
}


def run_of(folder: Path, demo: str) -> Path:
    """The run that a scenario shows, in a folder that ``write`` has filled."""
    return folder / demo / DEMOS[demo]


def write(folder: Path) -> None:
    """Writes the runs of all scenarios in a process of the environment of the demo."""
    paths = os.pathsep.join(str(ROOT / part) for part in ("rules_layer", "hooks", ""))
    command = [ROOT / ".venv" / "bin" / "python", "-m", "tests.browser.scenarios", folder]
    environment = {**os.environ, "PYTHONPATH": paths, "TOCSIN_MINUTE": _MINUTE}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)


def _write(folder: Path, name: str, scenario: Scenario) -> None:
    run, watch = folder / f"demo-{name}" / _TRAINING, folder / f"{name}.json"
    watch.write_text(json.dumps(scenario.watch), "utf-8")
    if scenario.where == "replay":
        shutil.copytree(ROOT / scenario.replayed, run)
        shutil.copyfile(watch, run / WATCH)
        return
    steps = ("--out", run, "--watch", watch, "--steps", scenario.planned_steps)
    pace = ("--seconds-per-step", "0")
    with _stopped(run) if name == "hang" else contextlib.nullcontext():
        own = (f"--{key}={value}" for key, value in scenario.hyperparameters.items())
        _train(*steps, *scenario.arguments, *own, *pace, *_QUICK.get(name, ()))


def _train(*arguments: object) -> None:
    from examples import digits_numpy

    sys.argv = ["digits_numpy.py", *map(str, arguments)]
    digits_numpy.train(digits_numpy.arguments())


@contextlib.contextmanager
def _stopped(run: Path) -> Iterator[None]:
    """Within the block: a training that hangs is asked to stop after some of its minutes."""

    def stop() -> None:
        request = {"requested_at": datetime.now(UTC).isoformat()}
        (run / STOP).write_text(json.dumps(request), "utf-8")

    timer = threading.Timer(_HANGS, stop)
    timer.start()
    yield
    timer.cancel()


if __name__ == "__main__":
    from local.scenarios import SCENARIOS

    assert [f"demo-{name}" for name in SCENARIOS] == [*DEMOS], "DEMOS are not the scenarios"
    into = Path(sys.argv[1])
    for each, known in SCENARIOS.items():
        _write(into, each, known)
