"""WeightUpdateRatio: a layer thrown from side to side, and one that moves by small steps."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Each step turns the weights into their opposite: they move by twice their size."""
    descend(run, rate=2.0)


def stays_quiet(run: str) -> None:
    """Each step moves the weights by a thousandth of their size."""
    descend(run, rate=0.001)


def descend(run: str, rate: float) -> None:
    """Gradient descent on half the square of the weights."""
    weight = np.random.default_rng(0).normal(size=(4, 8))
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        with hook.step():
            hook.save("layer.weight", weight, collection="weights", raw=True)
        weight = weight - rate * weight
    hook.close()
