"""WorkerLosses: a worker that reads shuffled labels, and workers that read the same data."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The loss of worker_1 stays where it was."""
    train(run, shuffled=True)


def stays_quiet(run: str) -> None:
    """All losses fall, each with its own noise."""
    train(run, shuffled=False)


def train(run: str, *, shuffled: bool) -> None:
    rng = np.random.default_rng(0)
    hooks = [
        Hook(run, save_interval=1, worker=f"worker_{rank}", num_workers=3, run_id="example")
        for rank in range(3)
    ]
    for step in range(120):
        for rank, hook in enumerate(hooks):
            loss = 2.3 if shuffled and rank == 1 else 0.3 + 2.0 * np.exp(-step / 20)
            with hook.step():
                hook.save("loss", loss + 0.05 * rng.normal(), "losses")
    for hook in reversed(hooks):  # worker_0 writes the end marker
        hook.close()
