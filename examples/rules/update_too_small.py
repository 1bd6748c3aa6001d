"""UpdateTooSmall: a learning rate of 3e-9, and one of 0.003."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """No weight changes by a millionth of its size."""
    train(run, rate=3e-9)


def stays_quiet(run: str) -> None:
    """A step changes the weights by a few thousandths."""
    train(run, rate=3e-3)


def train(run: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(8, 4))
    hook = Hook(run, save_interval=5)
    for _ in range(200):
        gradient = rng.normal(size=(8, 4))
        weight = weight - rate * gradient
        with hook.step():
            hook.save("fc.weight", weight, "weights")
            hook.save("gradient/fc.weight", gradient, "gradients")
            hook.save("loss", 2.0 + 0.1 * rng.normal(), "losses")
    hook.close()
