"""NLPSequenceRatio: sentences padded to 64 tokens, and sentences padded within their batch."""

import numpy as np
from tocsin_hooks import Hook

PADDING = 0


def fires(run: str) -> None:
    """No sentence has more than 20 tokens, so two thirds of each batch are padding."""
    load(run, width=64)


def stays_quiet(run: str) -> None:
    load(run, width=20)


def load(run: str, width: int) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        batch = np.full((8, width), PADDING)
        for sentence in batch:
            length = rng.integers(12, 21)
            sentence[:length] = rng.integers(1, 30_000, size=length)
        with hook.step():
            hook.save("input_ids", batch, "inputs", raw=True)
    hook.close()
