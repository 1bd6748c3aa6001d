"""How a training ended."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """``metric`` is mean recall over classes, the share of characters told right, or the explained
    share of the variance, on what the model will meet in truth; of several workers the worst.
    None stands for what is not finite. ``evaluations`` are the losses that the training saw.
    """

    loss: float | None
    metric: float | None
    train_loss: float | None
    train_metric: float | None
    evaluations: tuple[float | None, ...]
    saves: int
    seconds: float

    @property
    def sound(self) -> bool:
        return self.loss is not None and self.metric is not None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
