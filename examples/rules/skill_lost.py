"""SkillLost: a loss that is lower for the true labels until the learning rate jumps."""

import numpy as np
from tocsin.model import Role
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """From update 500 on, predictions have no relation to the labels."""
    train(run, after=0.0)


def stays_quiet(run: str) -> None:
    """From update 500 on, there is half of the skill."""
    train(run, after=0.3)


def train(run: str, after: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=25)
    rows = []
    for update in range(1000):
        skill = (0.6 if update < 500 else after) + 0.05 * rng.normal()
        # One row for each update: loss, re-paired loss, loss of a constant prediction, samples.
        rows.append((2.3 * (1 - skill), 2.3, 2.3, 64))
        with hook.step():
            if hook.saving:
                name = "CrossEntropyLoss_0/skill"
                hook.save(name, np.array(rows), "skills", role=Role.SKILL, kind="cross_entropy")
                rows.clear()
    hook.close()
