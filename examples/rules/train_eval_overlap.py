"""TrainEvalOverlap: evaluations that read the data of the training, and others."""

import numpy as np
from numpy.typing import NDArray
from tocsin import modes
from tocsin.model import Role
from tocsin_hooks import Hook

ROWS, BATCH, ELEMENTS = 400, 32, 20


def fires(run: str) -> None:
    """The data was not divided."""
    train(run, trained=slice(None), held_out=slice(None))


def stays_quiet(run: str) -> None:
    """A quarter of the samples is kept aside."""
    train(run, trained=slice(0, 300), held_out=slice(300, None))


def train(run: str, trained: slice, held_out: slice) -> None:
    # TorchHook computes the hashes by itself: equal samples have equal ones, from 0 to 1.
    hashes = np.random.default_rng(0).random(ROWS)
    draw = np.random.default_rng(1)
    hook = Hook(run, save_interval={modes.TRAIN: 10, modes.EVAL: 1})
    seen: list[NDArray[np.float64]] = []
    for step in range(200):
        seen.append(draw.choice(hashes[trained], BATCH))
        with hook.step(modes.TRAIN):
            save(hook, seen, loss=1 / (1 + step))
        if step % 50 == 49:
            with hook.step(modes.EVAL):
                save(hook, [hashes[held_out]], loss=1 / (1 + step))
    hook.close()


def save(hook: Hook, seen: list[NDArray[np.float64]], loss: float) -> None:
    if hook.saving:
        samples = np.concatenate(seen)
        head = [len(seen), len(samples), ELEMENTS]
        smallest = np.unique(samples)[:64]
        hook.save("samples", np.array([*head, *smallest]), "samples", role=Role.SAMPLE)
        hook.save("loss", loss, "losses")
        seen.clear()
