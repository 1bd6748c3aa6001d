"""AllZero: weight decay that leaves nothing, and weight decay as it should be."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Decay times rate is 1: the first step takes the whole weight away."""
    decay(run, 1.0)


def stays_quiet(run: str) -> None:
    """Each step takes away a ten-thousandth."""
    decay(run, 1e-4)


def decay(run: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(8, 4))
    hook = Hook(run, save_interval=1)
    for _ in range(30):
        with hook.step():
            hook.save("layer.weight", weight, collection="weights")
            hook.save("layer.bias", np.zeros(4), collection="biases")  # this may be zero
        weight = (1 - rate) * weight
    hook.close()
