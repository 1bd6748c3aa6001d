"""AllZero: weight decay that is far too strong, and weight decay of the right strength."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Decay times rate is 1: the first step sets the weights to zero."""
    decay(run, 1.0)


def stays_quiet(run: str) -> None:
    """Each step shrinks the weights by a ten-thousandth."""
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
