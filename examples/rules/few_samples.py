"""FewSamples: a seed that is set again in each step, and one that is set once."""

import numpy as np
from numpy.typing import NDArray
from tocsin import modes
from tocsin.model import Role
from tocsin_hooks import Hook

ROWS, BATCH, ELEMENTS = 5000, 32, 20


def fires(run: str) -> None:
    """Each batch has the same samples."""
    train(run, seeded=True)


def stays_quiet(run: str) -> None:
    """Batches are drawn from all samples."""
    train(run, seeded=False)


def train(run: str, seeded: bool) -> None:
    # TorchHook computes the hashes by itself: equal samples have equal ones, from 0 to 1.
    hashes = np.random.default_rng(0).random(ROWS)
    draw = np.random.default_rng(1)
    hook = Hook(run, save_interval=10)
    seen: list[NDArray[np.float64]] = []
    for _ in range(300):
        draw = np.random.default_rng(1) if seeded else draw
        seen.append(hashes[draw.choice(ROWS, BATCH, replace=False)])
        with hook.step(modes.TRAIN):
            if hook.saving:
                smallest = np.unique(np.concatenate(seen))[:64]
                head = [len(seen), BATCH * len(seen), ELEMENTS]
                hook.save("samples", np.array([*head, *smallest]), "samples", role=Role.SAMPLE)
                seen.clear()
    hook.close()
