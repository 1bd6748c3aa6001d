"""NonFiniteData: an empty cell in a table, and one that was filled in."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The empty cell is read as NaN, and is among the inputs at step 5."""
    load(run, cell=float("nan"))


def stays_quiet(run: str) -> None:
    """The empty cell is replaced by the mean of its column."""
    load(run, cell=0.0)


def load(run: str, cell: float) -> None:
    table = np.random.default_rng(0).normal(size=(10, 8, 4))
    table[5, 3, 2] = cell
    hook = Hook(run, save_interval=1)
    for batch in table:
        with hook.step():
            hook.save("x", batch, "inputs")
            hook.save("y", batch.sum(axis=1) > 0, "labels")
    hook.close()
