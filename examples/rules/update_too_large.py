"""UpdateTooLarge: a learning rate that jumps to the thousandfold half way, and one that stays."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From step 100 on each step overshoots."""
    train(run, jumps=1000.0)


def stays_quiet(run: str) -> None:
    train(run, jumps=1.0)


def train(run: str, jumps: float) -> None:
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(8, 4))
    hook = Hook(run, save_interval=5)
    for step in range(200):
        late = step >= 100
        gradient = rng.normal(size=(8, 4))
        weight = weight - 3e-3 * (jumps if late else 1.0) * gradient
        with hook.step():
            hook.save("fc.weight", weight, "weights")
            hook.save("gradient/fc.weight", gradient, "gradients")
            hook.save("loss", 2.0 + 0.1 * rng.normal() + late * (jumps > 1), "losses")
    hook.close()
