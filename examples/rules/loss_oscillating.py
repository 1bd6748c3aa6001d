"""LossOscillating: a loss that swings after the learning rate's warm-up, and one that falls."""

import math

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """After ten steps the loss jumps between 1.5 and 9."""
    train(run, [2.3 - 0.01 * step for step in range(10)] + [1.5, 9.0] * 20)


def stays_quiet(run: str) -> None:
    """The loss falls, with the noise of small batches."""
    train(run, [2.0 * 0.9**step + 0.4 + 0.2 * math.sin(7 * step) for step in range(50)])


def train(run: str, losses: list[float]) -> None:
    hook = Hook(run, save_interval=1)
    for loss in losses:
        with hook.step():
            hook.save("loss", loss, "losses")
    hook.close()
