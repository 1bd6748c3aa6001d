"""The unit of labels that are numbers, by their mean and their deviation."""

from __future__ import annotations

from typing import Any

import torch

_FAR = 2.0  # deviations, between means of labels in one unit
_WIDER = 4.0  # times the deviation


class LabelMoments:
    """The mean and the deviation of the labels that were seen."""

    def __init__(self) -> None:
        self._sums: Any = 0.0

    def add(self, labels: Any) -> None:
        self._sums = self._sums + _sums(labels)

    def are_like(self, labels: Any) -> bool:
        """Return whether other labels have the unit of these: about their mean, and their
        deviation."""
        count, total, squares = self._sums.tolist()
        own, own_total, own_squares = _sums(labels).tolist()
        mean, own_mean = total / count, own_total / own
        deviation = max(0.0, squares / count - mean**2) ** 0.5
        own_deviation = max(0.0, own_squares / own - own_mean**2) ** 0.5
        near = abs(own_mean - mean) <= _FAR * deviation
        return bool(near) and deviation <= _WIDER * own_deviation <= _WIDER**2 * deviation


def _sums(labels: Any) -> Any:
    wide = labels.detach().flatten().double()
    return torch.stack([torch.ones_like(wide).sum(), wide.sum(), wide.square().sum()])
