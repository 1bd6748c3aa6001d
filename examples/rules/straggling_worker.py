"""StragglingWorker: a worker that gets slower, and one that is always a little later."""

import os
import time
from pathlib import Path

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From step 10 on worker_2 needs 30 seconds for a step, and the others 20."""
    written(run, lambda step: 10.0 * max(0, step - 10))


def stays_quiet(run: str) -> None:
    """The files of worker_2 are larger and arrive 5 seconds later."""
    written(run, lambda step: 5.0)


def written(run: str, late) -> None:
    """Writes a run of three workers and 20 steps; worker_2 writes so many seconds later."""
    hooks = [
        Hook(run, save_interval=1, worker=f"worker_{rank}", num_workers=3, run_id="example")
        for rank in range(3)
    ]
    for _ in range(20):
        for hook in hooks:
            with hook.step():
                hook.save("loss", 1.0, "losses")
    for hook in reversed(hooks):  # worker_0 writes the end marker
        hook.close()
    start = time.time() - 20 * 30
    for path in Path(run, "index").rglob("*_worker_*.json"):
        step, _, worker = path.stem.partition("_")
        at = start + 20 * int(step) + (late(int(step)) if worker == "worker_2" else 0.0)
        os.utime(path, (at, at))
