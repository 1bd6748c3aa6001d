"""WorseThanBaseline: a change that mixes up the labels, and one that changes nothing."""

from pathlib import Path

import numpy as np
from tocsin_hooks import Hook

RULE = {"rule": "WorseThanBaseline", "parameters": {"runs": ["main"]}}


def fires(run: str) -> None:
    """The labels of the new version belong to other rows."""
    train(str(Path(run).with_name("main")), seed=1)
    train(run, seed=2, mixed=True)


def stays_quiet(run: str) -> None:
    """The new version differs by its random numbers only."""
    train(str(Path(run).with_name("main")), seed=1)
    train(run, seed=2)


def train(run: str, seed: int, mixed: bool = False) -> None:
    """Fits a line to 64 points by gradient descent, for 60 steps."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=64)
    y = 2 * x + 0.1 * rng.normal(size=64)
    if mixed:
        y = rng.permutation(y)
    weight = 0.0
    hook = Hook(run, save_interval=1)
    for _ in range(60):
        error = weight * x - y
        with hook.step():
            hook.save("loss", np.mean(error**2), "losses")
        weight -= 0.05 * np.mean(error * x)
    hook.close()
