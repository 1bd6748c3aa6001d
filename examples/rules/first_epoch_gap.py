"""FirstEpochGap: an evaluation that is prepared otherwise, and one as training is."""

import numpy as np
from tocsin import modes
from tocsin.model import Mode, Role
from tocsin_hooks import Hook

BATCH, KEPT = 32, 64


def fires(run: str) -> None:
    """The loss is 1.1 in evaluations, and 0.5 in training."""
    train(run, evaluated=1.1)


def stays_quiet(run: str) -> None:
    """The loss is 0.55 in evaluations."""
    train(run, evaluated=0.55)


def train(run: str, evaluated: float) -> None:
    rng = np.random.default_rng(0)
    hook = Hook(run, save_interval=10)
    for update in range(400):
        with hook.step(modes.TRAIN):
            if hook.saving:
                compare(hook, modes.TRAIN, 0.5 + 0.02 * rng.normal(), BATCH)
                # Of the ten steps since the last save, none of whose samples was seen before.
                hashes = np.sort(rng.random(10 * BATCH))[:KEPT]
                seen = np.array([10, 10 * BATCH, 784, *hashes])
                hook.save("samples", seen, "samples", role=Role.SAMPLE)
        if update % 100 == 99:
            with hook.step(modes.EVAL):
                compare(hook, modes.EVAL, evaluated, 500)
    hook.close()


def compare(hook: Hook, mode: Mode, loss: float, samples: int) -> None:
    if hook.saving:
        # A row for each comparison: loss, re-paired loss, loss of a constant prediction, samples.
        rows = np.array([(loss, 2.3, 2.3, samples)])
        hook.save("CrossEntropyLoss_0/skill", rows, "skills", role=Role.SKILL, kind="cross_entropy")
