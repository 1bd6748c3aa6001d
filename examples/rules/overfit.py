"""Overfit: a model that memorises its training data, and one that does not."""

import numpy as np
from tocsin_hooks import Hook, modes


def fires(run: str) -> None:
    """From epoch 4 on the validation loss rises while the training loss falls."""
    train(run, lambda epoch: 0.5 + 0.1 * abs(epoch - 4))


def stays_quiet(run: str) -> None:
    """The validation loss levels off well above the training loss, as in most trainings."""
    train(run, lambda epoch: 0.5 + 0.5 * 0.6**epoch)


def train(run: str, validation) -> None:
    """Writes twelve epochs of three training steps and an evaluation of two batches."""
    noise = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for epoch in range(12):
        for _ in range(3):
            with hook.step(modes.TRAIN):
                hook.save("loss", 0.8**epoch * noise.uniform(0.9, 1.1), "losses")
        for _ in range(2):
            with hook.step(modes.EVAL):
                hook.save("loss", validation(epoch) * noise.uniform(0.99, 1.01), "losses")
    hook.close()
