"""LearningRateSchedule: a cosine that ends long before the training, and one that ends with it."""

import math

from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The schedule was made for 20 steps."""
    train(run, planned=20)


def stays_quiet(run: str) -> None:
    """The schedule was made for the 40 steps of the training."""
    train(run, planned=40)


def train(run: str, planned: int) -> None:
    hook = Hook(run, save_interval=1)
    for step in range(40):
        with hook.step():
            part = min(step / planned, 1.0)
            hook.save("learning_rate", 0.05 * (1 + math.cos(math.pi * part)), "learning_rates")
    hook.close()
