"""SimilarAcrossRuns: a rerun that differs from the first run, and one that does not."""

from pathlib import Path

import numpy as np
from tocsin_hooks import Hook

RULE = {
    "rule": "SimilarAcrossRuns",
    "parameters": {"other_trials": ["reference"], "collection_names": ["losses", "weights"]},
}


def fires(run: str) -> None:
    """The rerun draws its batches with another seed."""
    train(str(Path(run).with_name("reference")), seed=1)
    train(run, seed=2)


def stays_quiet(run: str) -> None:
    """The rerun repeats the first run exactly."""
    train(str(Path(run).with_name("reference")), seed=1)
    train(run, seed=1)


def train(run: str, seed: int) -> None:
    """Fits the line y = 2x by gradient descent, for 10 steps."""
    rng = np.random.default_rng(seed)
    weight = np.zeros(1)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        x = rng.normal(size=16)
        error = weight * x - 2 * x
        with hook.step():
            hook.save("loss", np.mean(error**2), "losses")
            hook.save("weight", weight, "weights")
        weight = weight - 0.1 * np.mean(error * x)
    hook.close()
