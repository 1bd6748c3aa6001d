"""Confusion: a model that predicts threes as eights, and one that hardly ever does."""

import numpy as np
from tocsin_hooks import Hook

RULE = {"rule": "Confusion", "parameters": {"category_no": 10}}


def fires(run: str) -> None:
    """A third of the threes is predicted as an eight."""
    read_digits(run, misread=1 / 3)


def stays_quiet(run: str) -> None:
    """One of a hundred threes is predicted as an eight."""
    read_digits(run, misread=0.01)


def read_digits(run: str, misread: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(5):
        labels = np.arange(1000) % 10
        predictions = np.where((labels == 3) & (rng.random(1000) < misread), 8, labels)
        with hook.step():
            hook.save("labels", labels, collection="labels", raw=True)
            hook.save("predictions", predictions, collection="predictions", raw=True)
    hook.close()
