"""NotNormalizedData: measurements of wines in their own units, and standardised ones."""

import numpy as np
from tocsin_hooks import Hook

MEANS = np.array([13.0, 2.3, 2.4, 19.5, 99.7, 0.36, 5.1, 747.0])  # alcohol, … phenols, … proline
DEVIATIONS = np.array([0.8, 1.1, 0.3, 3.3, 14.3, 0.12, 2.3, 315.0])


def fires(run: str) -> None:
    load(run, standardised=False)


def stays_quiet(run: str) -> None:
    load(run, standardised=True)


def load(run: str, standardised: bool) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for _ in range(10):
        wines = rng.normal(MEANS, DEVIATIONS, size=(32, 8))
        batch = (wines - MEANS) / DEVIATIONS if standardised else wines
        with hook.step():
            hook.save("x", batch, "inputs", raw=True)
    hook.close()
