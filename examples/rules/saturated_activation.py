"""SaturatedActivation: inputs of a tanh that are not scaled, and the same inputs standardised."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Features are about 300, so every unit is at -1 or 1 for every sample."""
    forward(run, mean=300.0)


def stays_quiet(run: str) -> None:
    forward(run, mean=0.0)


def forward(run: str, mean: float) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 32)) / 4
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        features = rng.normal(mean, 1.0, size=(32, 16))
        with hook.step():
            hook.save("tanh0_input", features @ weights, "activation_inputs", kind="tanh", raw=True)
    hook.close()
