"""The order in which samples are met."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.detection.training.samples import Samples


def batches(
    train: Samples, size: int, seed: tuple[int, ...], *, shuffled: bool = True
) -> Iterator[Samples]:
    """Batches without end; each epoch is shuffled again, and its incomplete batch left out."""
    draw = np.random.default_rng(seed)
    count = len(train.x)
    size = min(size, count)
    while True:
        order = draw.permutation(count) if shuffled else np.arange(count)
        for start in range(0, count - size + 1, size):
            yield train.take(order[start : start + size])
