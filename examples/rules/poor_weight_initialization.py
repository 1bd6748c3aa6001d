"""PoorWeightInitialization: weights that start at zero, and weights drawn as by He et al."""

import numpy as np
from numpy.typing import NDArray
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """All units of a layer are the same, and stay the same."""
    train(run, np.zeros((8, 16)), np.zeros((16, 4)))


def stays_quiet(run: str) -> None:
    """The weights are random, with a variance of 2 / inputs."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(8, 16)), rng.normal(size=(16, 4))
    train(run, first * np.sqrt(2 / 8), second * np.sqrt(2 / 16))


def train(run: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> None:
    """Writes two layers with a ReLU between them, at the start of training."""
    rng = np.random.default_rng(1)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        with hook.step():
            hidden = rng.normal(size=(32, 8)) @ first
            outputs = np.maximum(hidden, 0) @ second
            hook.save("first.weight", first, collection="weights")
            hook.save("second.weight", second, collection="weights")
            hook.save("relu_input", hidden, collection="activation_inputs", kind="relu")
            hook.save("loss", np.square(outputs - 1).mean(), collection="losses")
    hook.close()
