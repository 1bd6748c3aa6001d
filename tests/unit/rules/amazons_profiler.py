"""What Amazon's profiler rules computed, on a series of one GPU or worker: for comparison.

Each function gets what the service sampled, and says whether the rule had a violation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Series = Sequence[float]


def bottleneck(
    gpus: Sequence[Series], cores: Sequence[Series], patience: int, gpu: float, core: float
) -> bool:
    """CPUBottleneck and IOBottleneck: any GPU beside any core, in half of the samples."""
    points = len(gpus[0])
    found = sum(
        min(each[at] for each in gpus) < gpu and max(each[at] for each in cores) > core
        for at in range(points)
    )
    return points > patience and 100 * found / points > 50


def memory_increase(values: Series, increase: float, window: int, patience: int) -> bool:
    """GPUMemoryIncrease: the last window against one that ends two samples before."""
    for end in range(2 * window, len(values) + 1):
        last = np.mean(values[end - window : end])
        before = np.mean(values[max(0, end - window - 1) : end - 2])
        if end > patience and last - before > increase:
            return True
    return False


def low_utilization(values: Series, window: int, patience: int) -> bool:
    """LowGPUUtilization with its thresholds of 70 and 10."""
    p95, p5 = np.quantile(values[-window:], (0.95, 0.05))
    return len(values) > patience and bool(p95 < 70 or (p95 > 70 and p5 < 10))


def step_outlier(durations: Series, stddev: float = 3.0, n_outliers: int = 10) -> bool:
    """StepOutlier: mean and population standard deviation."""
    mean, deviation = np.mean(durations), np.std(durations)
    slow = sum(bool(each > mean + stddev * deviation) for each in durations)
    return len(durations) > 100 and slow > n_outliers


def load_balancing(gpus: Sequence[Series], threshold: float) -> bool:
    """LoadBalancing: the last GPU was compared, with itself."""
    last = np.histogram(gpus[-1], np.arange(0, 100, 2))[0] / len(gpus[-1])
    return _distance(last, last) > threshold


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    middle = (one + other) / 2
    parts = [
        value * math.log(value / both)
        for each in (one, other)
        for value, both in zip(each, middle, strict=True)
        if value > 0
    ]
    return math.sqrt(max(0.0, sum(parts) / 2))


def dataloader(workers: Series, cores: int, patience: int = 10) -> bool:
    median = int(np.median(workers))
    outside = median < cores * 0.7 or median > cores * 2.0
    return len(workers) > patience and outside
