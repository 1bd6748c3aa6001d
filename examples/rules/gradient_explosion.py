"""GradientExplosion: a recurrence whose weights grow, and one whose weights do not."""

import numpy as np
from tocsin_hooks import Hook

MOMENTS = 20


def fires(run: str) -> None:
    """Back through twenty moments, a factor of 1.5 has become one of 3,000."""
    train(run, growth=0.05)


def stays_quiet(run: str) -> None:
    """Noise alone: a batch whose gradient is twice that of another is nothing new."""
    train(run, growth=0.0)


def train(run: str, growth: float) -> None:
    """At each step the recurrent weight is a little larger."""
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for step in range(20):
        factor = (1 + growth * step) ** MOMENTS
        with hook.step():
            gradient = factor * rng.normal(size=(8, 8))
            hook.save("gradient/rnn.weight", gradient, collection="gradients")
    hook.close()
