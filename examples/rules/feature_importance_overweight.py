"""FeatureImportanceOverweight: a column that leaks the label, and twenty useful columns."""

import numpy as np
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """Nearly all splits are by the date of cancellation, which only cancelled contracts have."""
    boost(run, columns=5, favourite=0.9)


def stays_quiet(run: str) -> None:
    """Without that column, the splits are by all the others."""
    boost(run, columns=20, favourite=0.0)


def boost(run: str, columns: int, favourite: float) -> None:
    """Writes the splits by feature in all trees so far: XGBoost's importance "weight"."""
    rng = np.random.default_rng(0)
    chances = np.full(columns, (1 - favourite) / columns)
    chances[0] += favourite
    splits = np.zeros(20)
    hook = Hook(run, save_interval=1)
    for _ in range(50):
        splits[:columns] += rng.multinomial(7, chances)
        with hook.step():
            importance = splits / splits.sum()
            hook.save("feature_importance/weight", importance, "feature_importance", raw=True)
    hook.close()
