"""Judges a recorded accuracy that stays at chance, for runs without labels or predictions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from statistics import fmean, pstdev
from typing import Any

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._rule import HEALTHY, UNDECIDED, Read, Step, Tensor, violation
from tocsin.rules._series import SCALAR_FIELDS, Point, points
from tocsin.rules._sketch import sketched

ACCURACIES = Read(roles=(Role.METRIC,), fields=SCALAR_FIELDS)
"""Reads metrics; those that are an accuracy have a name that says so."""

BIASES = Read(roles=(Role.BIAS,), fields=("size",))
"""Reads biases: the smallest is that of the last layer, with an element for each class."""

_ACCURACY = re.compile(r"(?i)(?<![a-z])acc(?:uracy)?(?![a-z])")
_ERRORS = 3.0  # standard errors that a mean may be from chance
_NEAR = 0.1  # of chance: so far a mean may always be
_SURE = 0.5  # of chance: with larger errors nothing is known


def recorded_accuracy(step: Step) -> Point | None:
    """Returns the first accuracy of a step that is a share."""
    named = (t for t in step.tensors["metrics"] if _ACCURACY.search(t.name))
    found = points(step, named, "rises")
    return next((point for point in found if 0 <= point.value <= 1), None)


def number_of_classes(biases: Iterable[Tensor]) -> int | None:
    """Returns the number of classes by the smallest bias; a single output has two."""
    sizes = [each.summary.size for each in biases if each.summary.size]
    return max(2, min(sizes)) if sizes else None


def judge_accuracy(
    memory: Mapping[str, Any], point: Point, classes: int, enough: int
) -> tuple[dict[str, Any], Verdict]:
    """Adds an accuracy to the memory of its mode, and says whether all were at chance.

    They are if the mean of each quarter is: a model that has learned had other means at least at
    the end.
    """
    after = {**sketched(memory, point.value), "saves": memory.get("saves", 0) + 1}
    blocks, chance = after["blocks"], 1.0 / classes
    if after["saves"] < enough or len(blocks) < 4:
        return after, UNDECIDED
    quarters = [blocks[at * len(blocks) // 4 : (at + 1) * len(blocks) // 4] for at in range(4)]
    error = _ERRORS * fmean(map(pstdev, quarters)) / len(quarters[0]) ** 0.5
    means = [fmean(quarter) for quarter in quarters]
    if max(abs(mean - chance) for mean in means) > max(error, _NEAR * chance):
        return after, HEALTHY
    if error > _SURE * chance:
        return after, UNDECIDED
    detail = (
        f"{point.tensor.name} is {means[-1]:.3g} after {after['saves']} saves, as at the first of "
        f"them: chance for {classes} classes is {chance:.3g}"
    )
    evidence = {"accuracy": means[-1], "chance": chance}
    return after, violation(Reason.BELOW_THRESHOLD, detail, point.tensor, **evidence)
