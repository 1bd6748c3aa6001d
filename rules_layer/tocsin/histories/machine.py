"""Recognises columns about the machine: how long steps take, and how busy GPUs are."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tocsin.histories.scalar import Scalar
from tocsin.model import Role

STEP, WAIT, GPU = "step", "wait", "gpu_utilization"
MINUTE = "minute"
"""The kinds of tensors that rules about machines read."""

MEASURED = (Role.DURATION, Role.SYSTEM)
LENGTH = "length of the step"
"""The name of the tensor that says how long a step took, where a row of a history says so."""

_STEP = re.compile(
    r"(?<![a-z])(?:(?:step|iter(?:ation)?|batch|epoch)_?(?:time|duration)|"
    r"(?:time|s|sec(?:ond)?s?|ms)(?:_?per_?|/)(?:step|it(?:er(?:ation)?)?|batch|epoch)|step_?ms)(?![a-z])"
)
_WAIT = re.compile(
    r"(?<![a-z])(?:(?:data|data_?loader|data_?load(?:ing)?|load|fetch|input)_?(?:wait_?)?time|"
    r"time_?data|data_?wait|wait_?data|reader_?cost)(?![a-z])"
)
_GPU = re.compile(
    r"(?<![a-z])gpu_?\d*[./_]?(?:util\w*|usage)(?![a-z])|(?<![a-z])util\w*[./_]gpu(?![a-z])|"
    r"system[./]gpu[./]\d+[./]gpu$"
)
_OF_STEP = re.compile(r"(?:^|/)time$|(?<![a-z])batch_?cost$", re.IGNORECASE)
_MILLISECONDS = re.compile(r"(?<![a-z])ms(?![a-z])")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FEW = 5  # values that a clock has risen at


@dataclass(frozen=True)
class Measured:
    """A column about the machine: its kind, and what its numbers are multiplied by."""

    kind: str
    factor: float = 1.0

    @property
    def role(self) -> Role:
        return Role.DURATION if self.kind in (STEP, WAIT) else Role.SYSTEM


def measured_columns(scalars: Iterable[Scalar]) -> dict[str, Measured]:
    """Return the columns about the machine whose numbers fit their names.

    A duration that never falls is a clock; a utilization of at most 1 is no percentage. Where the
    time for data is known, a column ``time`` or ``batch_cost`` is that of the step.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for scalar in scalars:
        values[scalar.name].append(scalar.value)
    found = {name: kind for name in values if (kind := _kind(name)) is not None}
    if WAIT in found.values():
        found |= dict.fromkeys(filter(_OF_STEP.search, values), STEP)
    return {
        name: Measured(kind, 1e-3 if _MILLISECONDS.search(_words(name)) else 1.0)
        for name, kind in found.items()
        if _fits(kind, values[name])
    }


def length_of(values: Mapping[str, float], columns: Mapping[str, Measured]) -> float | None:
    """Return the seconds that a row's step took; None if the row does not say it."""
    return next(
        (
            values[name] * column.factor
            for name, column in columns.items()
            if column.kind == STEP and name in values
        ),
        None,
    )


def _kind(name: str) -> str | None:
    words = _words(name)
    patterns = {WAIT: _WAIT, STEP: _STEP, GPU: _GPU}
    return next((kind for kind, pattern in patterns.items() if pattern.search(words)), None)


def _fits(kind: str, values: Sequence[float]) -> bool:
    known = [value for value in values if math.isfinite(value)]
    if not known or min(known) < 0:
        return False
    if kind in (STEP, WAIT):
        rises = len(known) > _FEW and all(before < after for before, after in pairwise(known))
        return not rises
    return 1 < max(known) <= 100


def _words(name: str) -> str:
    return _CAMEL_CASE.sub("_", name).lower().replace(" ", "_").replace("-", "_")
