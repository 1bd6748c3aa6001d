"""UnshuffledData: images in folders of their classes, read in that order and shuffled."""

import numpy as np
from tocsin import modes
from tocsin.model import Role
from tocsin_hooks import Hook

IMAGES, CLASSES, BATCH = 1280, 5, 32


def fires(run: str) -> None:
    """A batch has images of one class."""
    train(run, shuffle=False)


def stays_quiet(run: str) -> None:
    """Batches are drawn from all classes."""
    train(run, shuffle=True)


def train(run: str, shuffle: bool) -> None:
    labels = np.sort(np.random.default_rng(0).integers(0, CLASSES, IMAGES))
    if shuffle:
        labels = np.random.default_rng(1).permutation(labels)
    hook = Hook(run, save_interval=1)
    for batch in labels.reshape(-1, BATCH):
        with hook.step(modes.TRAIN):
            hook.save("labels", batch, "labels", role=Role.LABEL)
    hook.close()
