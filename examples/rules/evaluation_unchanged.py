"""EvaluationUnchanged: a model that is never updated, and one that is."""

import numpy as np
from tocsin import modes
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The optimizer updates a copy of the model."""
    train(run, rate=0.0)


def stays_quiet(run: str) -> None:
    """It updates the model."""
    train(run, rate=0.02)


def train(run: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=10)
    weight = 0.0
    for update in range(400):
        x = rng.normal(size=32)
        error = weight * x - 3 * x
        weight -= rate * float(np.mean(error * x))
        with hook.step(modes.TRAIN):
            hook.save("loss", float(np.mean(error**2)), "losses")
        if update % 50 == 49:
            with hook.step(modes.EVAL):
                hook.save("loss", (weight - 3) ** 2, "losses")
    hook.close()
