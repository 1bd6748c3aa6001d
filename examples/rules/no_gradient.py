"""NoGradient: the actions of an agent, a tanh of numbers that are too large, and of small ones."""

import numpy as np
from tocsin import modes
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """In double precision the tanh of 300 is 1, and its slope 0."""
    train(run, scale=300.0)


def stays_quiet(run: str) -> None:
    train(run, scale=1.0)


def train(run: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=3) * scale
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        observations = 1 + rng.random((32, 3))
        action = np.tanh(observations @ abs(weight))
        slope = (1 - action**2) * action  # of a cost: half the square of the action
        with hook.step(modes.TRAIN):
            hook.save("loss", np.mean(action**2) / 2, collection="losses")
            hook.save("gradient/actor.weight", observations.T @ slope / 32, "gradients")
    hook.close()
