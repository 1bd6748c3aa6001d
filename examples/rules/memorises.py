"""Memorises: labels that are known in TRAIN and unknown in EVAL, and ones known in both."""

import numpy as np
from tocsin import modes
from tocsin.model import Mode, Role
from tocsin_hooks import Hook

Rows = list[tuple[float, float, float, float]]


def fires(run: str) -> None:
    """Evaluations are at chance."""
    train(run, evaluated=0.0)


def stays_quiet(run: str) -> None:
    """Evaluations have half of the skill."""
    train(run, evaluated=0.4)


def train(run: str, evaluated: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=25)
    rows: dict[Mode, Rows] = {modes.TRAIN: [], modes.EVAL: []}
    for update in range(1000):
        compare(hook, modes.TRAIN, rows[modes.TRAIN], 0.8 + 0.02 * rng.normal())
        if update % 10 == 9:
            compare(hook, modes.EVAL, rows[modes.EVAL], evaluated + 0.02 * rng.normal())
    hook.close()


def compare(hook: Hook, mode: Mode, rows: Rows, skill: float) -> None:
    # One row for each step: loss, re-paired loss, loss of a constant prediction, samples.
    rows.append((2.3 * (1 - skill), 2.3, 2.3, 64))
    with hook.step(mode):
        if hook.saving:
            name = "CrossEntropyLoss_0/skill"
            hook.save(name, np.array(rows), "skills", role=Role.SKILL, kind="cross_entropy")
            rows.clear()
