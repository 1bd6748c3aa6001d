"""GradientExplosion: a recurrence whose weights grow, and one whose weights do not."""

import numpy as np
from tocsin_hooks import Hook

MOMENTS = 20


def fires(run: str) -> None:
    """Over twenty steps of the recurrence, a factor of 1.5 becomes 3,000."""
    train(run, growth=0.05)


def stays_quiet(run: str) -> None:
    """The gradients differ by noise only, by a factor of two."""
    train(run, growth=0.0)


def train(run: str, growth: float) -> None:
    """Writes gradients of a recurrence whose weight grows a little with each step."""
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for step in range(40):
        factor = (1 + growth * step) ** MOMENTS
        with hook.step():
            gradient = factor * rng.normal(size=(8, 8))
            hook.save("gradient/rnn.weight", gradient, collection="gradients")
    hook.close()
