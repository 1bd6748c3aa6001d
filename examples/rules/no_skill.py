"""NoSkill: losses that do not depend on which label belongs to which sample, and ones that do."""

import numpy as np
from tocsin.model import Role
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The labels are shuffled."""
    train(run, skill=0.0)


def stays_quiet(run: str) -> None:
    """The loss is 40 % lower than that of the same predictions with shuffled labels."""
    train(run, skill=0.4)


def train(run: str, skill: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=10)
    rows = []
    for _ in range(400):
        # One row for each update: loss, re-paired loss, loss of a constant prediction, samples.
        rows.append((2.3 * (1 - skill + 0.02 * rng.normal()), 2.3, 2.3, 64))
        with hook.step():
            if hook.saving:
                name = "CrossEntropyLoss_0/skill"
                hook.save(name, np.array(rows), "skills", role=Role.SKILL, kind="cross_entropy")
                rows.clear()
    hook.close()
