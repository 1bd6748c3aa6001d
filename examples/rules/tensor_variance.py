"""TensorVariance: activations that grow from layer to layer, and activations that do not."""

import numpy as np
from tocsin_hooks import Hook

RULE = {
    "rule": "TensorVariance",
    "parameters": {"tensor_regex": "relu", "max_threshold": 10, "min_threshold": 1e-5},
}


def fires(run: str) -> None:
    """The weights are too large: each layer doubles its input."""
    forward(run, scale=2.0)


def stays_quiet(run: str) -> None:
    """The weights have the right size: the variance stays about the same."""
    forward(run, scale=1.0)


def forward(run: str, scale: float) -> None:
    """Writes the activations of five layers, for ten steps."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(5, 32, 32)) * scale * np.sqrt(2 / 32)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        values = rng.normal(size=(16, 32))
        with hook.step():
            for layer, weight in enumerate(weights):
                values = np.maximum(values @ weight, 0)
                hook.save(f"relu{layer}_output", values, collection="activation_outputs")
    hook.close()
