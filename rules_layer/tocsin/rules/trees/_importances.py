"""Reads the feature importances of a boosted model, as hooks for XGBoost save them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from tocsin.model import Role
from tocsin.rules._rule import Read, Tensor

IMPORTANCES = Read(
    roles=(Role.FEATURE_IMPORTANCE,), kinds=("weight",), fields=("mean",), values=True
)
"""Reads the number of splits by each feature: one vector, or a tensor for each feature. smdebug
saves no tensor for unused features."""

SHAP = Read(roles=(Role.FEATURE_IMPORTANCE,), kinds=("shap",))
"""Reads SHAP values. They are saved for every feature, so they show how many there are."""


@dataclass(frozen=True)
class Importances:
    """The importances of one worker.

    ``tensor``: the tensor with the largest importance.
    ``values``: the importances, in descending order.
    ``features``: the number of features of the model, or of used features if that is not known.
    ``known``: whether the number of features of the model is known.
    """

    tensor: Tensor
    values: tuple[float, ...]
    features: int
    known: bool

    @property
    def unused(self) -> int:
        """The number of features that no tree splits by."""
        return self.features - sum(value > 0 for value in self.values)


def importances(found: Iterable[Tensor], shap: Iterable[Tensor]) -> list[Importances]:
    """Group the tensors of IMPORTANCES and SHAP by worker and way of counting."""
    seen = [tensor.worker for tensor in shap]
    grouped = []
    for (worker, _), group in groupby(sorted(found, key=_group), _group):
        values = [(value, tensor) for tensor in group for value in _values(tensor)]
        if not values:
            continue
        values.sort(key=lambda pair: (-pair[0], pair[1].name))
        numbers = tuple(value for value, _ in values)
        known = seen.count(worker) > 0 or numbers[-1] == 0 or _is_vector(values[0][1])
        features = max(len(numbers), seen.count(worker))
        grouped.append(Importances(values[0][1], numbers, features, known))
    return grouped


def _group(tensor: Tensor) -> tuple[str, str]:
    """Return the group of a tensor: scalars of one folder are a group, and each vector is one."""
    folder, _, _ = tensor.name.rpartition("/")
    return tensor.worker, tensor.name if _is_vector(tensor) else folder


def _is_vector(tensor: Tensor) -> bool:
    return math.prod(tensor.shape or ()) > 1


def _values(tensor: Tensor) -> list[float]:
    if not _is_vector(tensor):
        mean = tensor.summary.mean
        return [] if mean is None else [_bounded(mean)]
    value = tensor.value
    if value is None or value.dtype.kind not in "biuf":
        return []
    return [_bounded(number) for number in map(float, value.reshape(-1)) if math.isfinite(number)]


def _bounded(number: float) -> float:
    """Limits a number: it must not be negative, and must be small enough for a finite sum."""
    return min(max(number, 0.0), 1e300)
