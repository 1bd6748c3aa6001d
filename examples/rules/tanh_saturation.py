"""TanhSaturation: weights that start far too large, and weights of the right size."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The weights' deviation is 10 instead of 0.25, so hardly any input is within ±3."""
    forward(run, deviation=10.0)


def stays_quiet(run: str) -> None:
    """The weights' deviation is 1 / √inputs, as by Glorot and Bengio."""
    forward(run, deviation=0.25)


def forward(run: str, deviation: float) -> None:
    """Writes the outputs only, which are enough for the rule."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(16, 32)) * deviation
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        output = np.tanh(rng.normal(size=(64, 16)) @ weights)
        with hook.step():
            hook.save("tanh0_output", output, "activation_outputs", kind="tanh", raw=True)
    hook.close()
