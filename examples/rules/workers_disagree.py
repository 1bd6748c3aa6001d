"""WorkersDisagree: a worker that no longer shares its gradients, and workers that all do."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From step 10 on worker_1 misses the all-reduce and uses its own gradients."""
    train(run, alone_from=10)


def stays_quiet(run: str) -> None:
    """All workers make the same steps."""
    train(run, alone_from=1000)


def train(run: str, alone_from: int) -> None:
    """Trains three workers that start with the same weights and average their gradients."""
    rng = np.random.default_rng(0)
    weights = [np.linspace(-1, 1, 50) for _ in range(3)]
    hooks = [
        Hook(run, save_interval=1, worker=f"worker_{rank}", num_workers=3, run_id="example")
        for rank in range(3)
    ]
    for step in range(20):
        gradients = rng.normal(size=(3, 50))
        shared = gradients.mean(axis=0)
        for rank, hook in enumerate(hooks):
            with hook.step():
                hook.save("weight", weights[rank], "weights")
            own = rank == 1 and step >= alone_from
            weights[rank] = weights[rank] - 0.01 * (gradients[rank] if own else shared)
    for hook in reversed(hooks):  # worker_0 writes the end marker
        hook.close()
