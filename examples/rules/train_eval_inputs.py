"""TrainEvalInputs: images that only training divides by 255, and ones that both divide."""

import numpy as np
from tocsin import modes
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Evaluations get values from 0 to 255."""
    classify(run, scale=255.0)


def stays_quiet(run: str) -> None:
    """Both get values from 0 to 1."""
    classify(run, scale=1.0)


def classify(run: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for step in range(60):
        mode = modes.EVAL if step % 20 >= 15 else modes.TRAIN
        images = rng.uniform(size=(32, 3, 8, 8)) * (scale if mode == modes.EVAL else 1.0)
        with hook.step(mode):
            hook.save("images", images, "inputs")
            hook.save("loss", 1.0 + 0.01 * scale * (mode == modes.EVAL), "losses")
    hook.close()
