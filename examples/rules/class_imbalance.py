"""ClassImbalance: a class with 2 % of the samples, and a loader that draws both equally often."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Frauds are 2 % of the transactions and of the batches."""
    batches(run, frauds=0.02)


def stays_quiet(run: str) -> None:
    """A weighted sampler draws frauds as often as other transactions."""
    batches(run, frauds=0.5)


def batches(run: str, frauds: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        labels = (rng.random(64) < frauds).astype(np.int64)
        with hook.step():
            hook.save("labels", labels, collection="labels", raw=True)
    hook.close()
