"""LossGap: evaluations that never see what training learns, and ones that do."""

import numpy as np
from tocsin import modes
from tocsin.model import Mode, Role
from tocsin_hooks import Hook


def fires(run: str) -> None:
    """The evaluation reads the channels of images in another order."""
    train(run, evaluated=9.0)


def stays_quiet(run: str) -> None:
    """Its loss is above that of training, and below that of a guess."""
    train(run, evaluated=1.5)


def train(run: str, evaluated: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=1)
    for update in range(200):
        compare(hook, modes.TRAIN, 0.5 + 0.02 * rng.normal())
        if update % 10 == 9:
            compare(hook, modes.EVAL, evaluated + 0.02 * rng.normal())
    hook.close()


def compare(hook: Hook, mode: Mode, loss: float) -> None:
    # One row for each step: loss, re-paired loss, loss of a constant prediction, samples.
    rows = np.array([(loss, loss + 1.5, 2.3, 64)])
    with hook.step(mode):
        hook.save("loss/skill", rows, "skills", role=Role.SKILL, kind="cross_entropy")
