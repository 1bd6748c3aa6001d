"""VanishingGradient: sigmoids that shrink the gradient layer by layer, and ReLUs that do not."""

import numpy as np
from tocsin_hooks import Hook

LAYERS = 8


def fires(run: str) -> None:
    """Each sigmoid passes on at most a quarter of the gradient, and the weights are small."""
    backward(run, slope=0.25, scale=0.1)


def stays_quiet(run: str) -> None:
    """ReLUs pass on all of the gradient, and the weights have the right size."""
    backward(run, slope=1.0, scale=1.0)


def backward(run: str, slope: float, scale: float) -> None:
    """Writes the gradients of all layers, for ten steps."""
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        gradient = rng.normal(size=32)
        with hook.step():
            for layer in reversed(range(LAYERS)):
                weights = rng.normal(size=(32, 32)) * scale / np.sqrt(32)
                gradient = slope * weights @ gradient
                hook.save(f"gradient/layer{layer}.weight", gradient, collection="gradients")
    hook.close()
