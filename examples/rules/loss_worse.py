"""LossWorse: a loss that falls, and rises again at half of the run, and one that stays down."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From the 40th save on, most of what was learned is lost."""
    train(run, after=1.8)


def stays_quiet(run: str) -> None:
    """From the 40th save on, the loss is a little higher: the data is harder."""
    train(run, after=0.6)


def train(run: str, after: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for step in range(80):
        loss = 0.4 + 1.9 * np.exp(-step / 8) if step < 40 else after
        with hook.step():
            hook.save("loss", loss + 0.05 * rng.normal(), "losses")
    hook.close()
