"""CheckInputImages: images from 0 to 1, and the same ones with each channel's mean subtracted."""

import numpy as np
from tocsin_hooks import Hook

MEANS = np.reshape([0.6, 0.5, 0.3], (3, 1, 1))


def fires(run: str) -> None:
    load(run, subtract=0.0)


def stays_quiet(run: str) -> None:
    load(run, subtract=MEANS)


def load(run: str, subtract: float | np.ndarray) -> None:
    """Writes twenty batches of 32 images: the rule waits for 500 images."""
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(20):
        images = MEANS + rng.uniform(-0.3, 0.3, size=(32, 3, 4, 4)) - subtract
        with hook.step():
            hook.save("images", images.astype(np.float32), "inputs", raw=True)
    hook.close()
