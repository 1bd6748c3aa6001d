"""SigmoidSaturation: pixels from 0 to 255 before a sigmoid layer, and pixels from 0 to 1."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    forward(run, brightest=255.0)


def stays_quiet(run: str) -> None:
    forward(run, brightest=1.0)


def forward(run: str, brightest: float) -> None:
    """Writes a layer of 32 sigmoids over images of 64 pixels."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(64, 32)) / 8
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        inputs = rng.uniform(0, brightest, size=(64, 64)) @ weights
        with hook.step():
            hook.save("sigmoid0_input", inputs, "activation_inputs", kind="sigmoid", raw=True)
    hook.close()
