"""NoBetterThanGuessing: predictions without relation to the labels, and predictions with."""

import numpy as np
from tocsin import modes
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The predictions vary as much as the labels, but belong to other samples."""
    evaluate(run, knowledge=0.0)


def stays_quiet(run: str) -> None:
    """The predictions are half labels, half noise."""
    evaluate(run, knowledge=0.7)


def evaluate(run: str, knowledge: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(12):
        target = rng.normal(size=64)
        with hook.step(modes.EVAL):
            hook.save("labels", target, collection="labels")
            guess = knowledge * target + 0.3 * rng.normal(size=64)
            hook.save("predictions", guess, collection="predictions")
    hook.close()
