"""DeadNetwork: a network whose hidden units all die, and one of which half of them die."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From step 20 on all biases are far below zero: the output is the same for every sample."""
    classify(run, dying=16)


def stays_quiet(run: str) -> None:
    """Half of the units stay active."""
    classify(run, dying=8)


def classify(run: str, dying: int) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 16)), rng.normal(size=(16, 3))
    hook = Hook(run, save_interval=1)
    for step in range(60):
        bias = np.where(np.arange(16) < dying, -100.0 if step >= 20 else 0.0, 0.0)
        hidden = np.maximum(rng.normal(size=(32, 4)) @ first + bias, 0.0)
        with hook.step():
            hook.save("loss", 1.1 + 0.02 * rng.normal(), "losses")
            hook.save("logits", hidden @ second + [0.1, 0.2, 0.3], "predictions")
    hook.close()
