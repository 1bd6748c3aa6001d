"""UnusedFeatures: forty columns of which all but one are empty, and forty useful columns."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """All columns but the first are empty, so no tree can split by them."""
    boost(run, usable=1)


def stays_quiet(run: str) -> None:
    """The trees split by half of the columns."""
    boost(run, usable=20)


def boost(run: str, usable: int) -> None:
    rng = np.random.default_rng(0)
    splits = np.zeros(40)
    hook = Hook(run, save_interval=5)
    for _ in range(100):
        splits[:usable] += rng.multinomial(7, np.full(usable, 1 / usable))
        with hook.step():
            importance = splits / splits.sum()
            hook.save("feature_importance/weight", importance, "feature_importance", raw=True)
    hook.close()
