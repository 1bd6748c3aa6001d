"""WeightUpdateRatio: a layer that changes erratically, and one that changes by small steps."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Each step changes the sign of the weights: an update of twice their size."""
    descend(run, rate=2.0)


def stays_quiet(run: str) -> None:
    """Each step changes the weights by a thousandth of their size."""
    descend(run, rate=0.001)


def descend(run: str, rate: float) -> None:
    """Runs gradient descent on half the square of the weights."""
    weight = np.random.default_rng(0).normal(size=(4, 8))
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        with hook.step():
            hook.save("layer.weight", weight, collection="weights", raw=True)
        weight = weight - rate * weight
    hook.close()
