"""StalledTrainingRule: a training that hung for two hours, and one that is only slow."""

import os
import time
from pathlib import Path

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """A step is saved every 10 seconds, then none for two hours before step 8."""
    written(run, [10 * step + 7200 * (step >= 8) for step in range(12)])


def stays_quiet(run: str) -> None:
    """A step is saved every hour."""
    written(run, [3600 * step for step in range(12)])


def written(run: str, seconds: list[int]) -> None:
    """Writes a run whose steps were saved at these times, by its index files."""
    hook = Hook(run, save_interval=1)
    for _ in seconds:
        with hook.step():
            hook.save("loss", 1.0, "losses")
    hook.close()
    start = time.time() - seconds[-1]
    for path, at in zip(sorted(Path(run, "index").rglob("*.json")), seconds, strict=True):
        os.utime(path, (start + at, start + at))
