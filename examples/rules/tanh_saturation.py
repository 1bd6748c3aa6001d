"""TanhSaturation: weights that start far too large, and weights of the right size."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """A deviation of 10 instead of 0.25: hardly any input stays within ±3."""
    forward(run, deviation=10.0)


def stays_quiet(run: str) -> None:
    """One over the root of the number of inputs, as Glorot and Bengio found."""
    forward(run, deviation=0.25)


def forward(run: str, deviation: float) -> None:
    """Only the outputs are captured: they tell as much."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 32)) * deviation
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        output = np.tanh(rng.normal(size=(64, 16)) @ weights)
        with hook.step():
            hook.save("tanh0_output", output, "activation_outputs", kind="tanh", raw=True)
    hook.close()
