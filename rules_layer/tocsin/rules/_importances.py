"""How much each feature counts in a boosted model, as XGBoost's hooks save it."""

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
"""How often a feature is split by. A tensor each, where smdebug leaves out those that never are,
or one vector of all."""

SHAP = Read(roles=(Role.FEATURE_IMPORTANCE,), kinds=("shap",))
"""Saved of every feature, so they tell how many there are."""


@dataclass(frozen=True)
class Importances:
    """Those of one worker, largest first, and the tensor of the largest. ``features`` is how many
    the model has, ``known`` whether that is known and not only how many it uses.
    """

    tensor: Tensor
    values: tuple[float, ...]
    features: int
    known: bool

    @property
    def unused(self) -> int:
        """How many features no tree is split by."""
        return self.features - sum(value > 0 for value in self.values)


def importances(found: Iterable[Tensor], shap: Iterable[Tensor]) -> list[Importances]:
    """What the reads IMPORTANCES and SHAP have found, by worker and way of counting."""
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
    """Scalars of one folder belong together, a vector stands for itself."""
    folder, _, _ = tensor.name.rpartition("/")
    return tensor.worker, tensor.name if _is_vector(tensor) else folder


def _is_vector(tensor: Tensor) -> bool:
    return math.prod(tensor.shape or ()) > 1


def _values(tensor: Tensor) -> list[float]:
    if not _is_vector(tensor):
        mean = tensor.summary.mean
        return [] if mean is None else [_sane(mean)]
    value = tensor.value
    if value is None or value.dtype.kind not in "biuf":
        return []
    return [_sane(number) for number in map(float, value.reshape(-1)) if math.isfinite(number)]


def _sane(number: float) -> float:
    """An importance is not negative, and the sum of many is finite."""
    return min(max(number, 0.0), 1e300)
