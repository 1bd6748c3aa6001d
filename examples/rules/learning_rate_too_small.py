"""LearningRateTooSmall: steps that change nothing, and steps that reach the target."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """In thirty steps the loss falls by hardly a thousandth."""
    descend(run, rate=1e-5)


def stays_quiet(run: str) -> None:
    """Each step removes a good part of the distance."""
    descend(run, rate=0.05)


def descend(run: str, rate: float) -> None:
    """Runs gradient descent on the squared distance to a target."""
    rng = np.random.default_rng(0)
    weight, target = rng.normal(size=(2, 4, 8))
    hook = Hook(run, save_interval=1)
    for _ in range(30):
        gradient = 2 * (weight - target)
        with hook.step():
            hook.save("loss", np.square(weight - target).sum(), collection="losses")
            hook.save("layer.weight", weight, collection="weights", raw=True)
            hook.save("gradient/layer.weight", gradient, collection="gradients")
        weight = weight - rate * gradient
    hook.close()
