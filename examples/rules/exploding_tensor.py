"""ExplodingTensor: a logarithm of zero, and one that is guarded."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """At step 5 a probability of zero makes the loss infinite."""
    cross_entropy(run, least=0.0)


def stays_quiet(run: str) -> None:
    """The same probabilities, kept away from zero."""
    cross_entropy(run, least=1e-7)


def cross_entropy(run: str, least: float) -> None:
    hook = Hook(run, save_interval=1)
    for step in range(10):
        probability = np.clip([0.9, 0.7, 0.0 if step == 5 else 0.4], least, 1.0)
        with hook.step(), np.errstate(divide="ignore"):
            hook.save("loss", -np.log(probability).mean(), collection="losses")
    hook.close()
