"""DeadRelu: a layer after one huge update, and one after a usual update."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """At step 10 the biases of nine of ten units become so low that the units are never active."""
    forward(run, drop=50.0)


def stays_quiet(run: str) -> None:
    """The update at step 10 has the usual size."""
    forward(run, drop=0.1)


def forward(run: str, drop: float) -> None:
    """Writes a layer of 40 units for 30 steps, each with a batch of 32 samples."""
    rng = np.random.default_rng(0)
    weights, biases = rng.normal(size=(16, 40)) / 4, np.zeros(40)
    hook = Hook(run, save_interval=1)
    for step in range(30):
        if step == 10:
            biases[:36] -= drop
        output = np.maximum(rng.normal(size=(32, 16)) @ weights + biases, 0)
        with hook.step():
            hook.save("relu0_output", output, "activation_outputs", kind="relu", raw=True)
    hook.close()
