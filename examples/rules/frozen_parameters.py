"""FrozenParameters: a layer that the optimizer does not know, and one frozen on purpose."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The body gets gradients, but the optimizer has the parameters of the head only."""
    train(run, differentiated=("body", "head"), optimised=("head",))


def stays_quiet(run: str) -> None:
    """The body is frozen on purpose: there are no gradients for it."""
    train(run, differentiated=("head",), optimised=("head",))


def train(run: str, differentiated: tuple[str, ...], optimised: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    weights = {"body": rng.normal(size=(8, 8)), "head": rng.normal(size=(8, 2))}
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        gradients = {name: rng.normal(size=weights[name].shape) for name in differentiated}
        with hook.step():
            for name, weight in weights.items():
                hook.save(f"{name}.weight", weight, collection="weights")
            for name, gradient in gradients.items():
                hook.save(f"gradient/{name}.weight", gradient, collection="gradients")
        for name in optimised:
            weights[name] = weights[name] - 0.01 * gradients[name]
    hook.close()
