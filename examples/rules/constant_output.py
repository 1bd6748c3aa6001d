"""ConstantOutput: a hidden layer that is dead for every sample, and one that is not."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From step 25 on the hidden units are off, since their biases are far below zero."""
    classify(run, dies_at=25)


def stays_quiet(run: str) -> None:
    """The hidden units stay active."""
    classify(run, dies_at=None)


def classify(run: str, dies_at: int | None) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 16)), rng.normal(size=(16, 3))
    hook = Hook(run, save_interval=1)
    for step in range(40):
        samples, labels = rng.normal(size=(32, 4)), rng.integers(3, size=32)
        bias = -100.0 if dies_at is not None and step >= dies_at else 0.0
        logits = np.maximum(samples @ first + bias, 0.0) @ second + [0.1, 0.2, 0.3]
        with hook.step():
            hook.save("labels", labels, collection="labels", raw=True)
            hook.save("predictions", logits, collection="predictions", raw=True)
    hook.close()
