"""Collapse: embeddings that shrink to one point, and ones that stay apart."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """A penalty pulls all embeddings together."""
    embed(run, shrinks=0.5)


def stays_quiet(run: str) -> None:
    """They become a little smaller."""
    embed(run, shrinks=0.98)


def embed(run: str, shrinks: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for step in range(40):
        with hook.step():
            hook.save("embeddings", 1 + shrinks**step * rng.normal(size=(32, 8)), "predictions")
    hook.close()
