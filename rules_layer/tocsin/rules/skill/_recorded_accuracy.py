"""Judges a recorded accuracy that stays at chance, for runs without labels or predictions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from tocsin.model import Reason, Role, Verdict
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import Read, Step, Tensor
from tocsin.rules._series import SCALAR_FIELDS, Point, points
from tocsin.rules._sketch import deviation, sketched
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, not_applicable, violation
from tocsin.rules._window import rounded

ACCURACIES = Read(roles=(Role.METRIC,), fields=SCALAR_FIELDS)
"""Reads metrics; those that are an accuracy have a name that says so."""

BIASES = Read(roles=(Role.BIAS,), fields=("size",))
"""Reads biases: the smallest is that of the last layer, with an element for each class."""

_ACCURACY = re.compile(r"(?i)(?<![a-z])acc(?:uracy)?(?![a-z])")
_ERRORS = 3.0  # standard errors that a mean may be from chance
_NEAR = 0.1  # of chance: a deviation that is always allowed
_SURE = 0.5  # of chance: with larger errors nothing is known
_LOSS = re.compile(r"(?i)(?:^|[/_.])loss$")
_LEAST_LOSS = 0.66  # loss of a guess between two classes, and a little less
_FAR = 1e6  # larger losses count as this, so that their mean is finite
_LARGEST_LOSS = 7.0  # loss of a guess among a thousand classes


def recorded_accuracy(step: Step) -> Point | None:
    """Return the first accuracy of a step between 0 and 1, from an evaluation if there is one."""
    named = (t for t in step.tensors["metrics"] if _ACCURACY.search(t.name))
    shares = [point for point in points(step, named, "rises") if 0 <= point.value <= 1]
    return next((point for point in shares if of_evaluation(step, point)), next(iter(shares), None))


def of_evaluation(step: Step, point: Point) -> bool:
    """Return whether an accuracy is that of an evaluation, by its name or the mode of its step."""
    return classify_loss(step.mode, point.tensor)[0] is True


def classes_by_loss(
    memory: Mapping[str, Any], step: Step, accuracy: Point
) -> tuple[dict[str, Any], int | None]:
    """Add the loss beside an accuracy to the memory, and return how many classes it is a guess
    between: its mean is then the logarithm of their number.

    A model that knows anything of its samples has a higher accuracy beside such a loss: its
    cross-entropy is at least that of samples that are all as sure as the average one.
    """
    evaluates = of_evaluation(step, accuracy)
    tensors = [*step.tensors.get("losses", ()), *step.tensors["metrics"]]
    beside = (t for t in tensors if classify_loss(step.mode, t)[0] is evaluates)
    named = (t for t in beside if _LOSS.search(t.name))
    loss = next((point.value for point in points(step, named, "falls")), math.nan)
    if not math.isfinite(loss):
        return dict(memory), None
    count, mean = memory.get("beside", (0, 0.0))
    mean += (max(-_FAR, min(loss, _FAR)) - mean) / (count + 1)
    after = {**memory, "beside": [count + 1, rounded(mean)]}
    known = _LEAST_LOSS <= mean <= _LARGEST_LOSS
    return after, max(2, round(math.exp(mean))) if known else None


def number_of_classes(biases: Iterable[Tensor]) -> int | None:
    """Return the number of classes by the smallest bias; a single output has two."""
    sizes = [each.summary.size for each in biases if each.summary.size]
    return max(2, min(sizes)) if sizes else None


def judge_accuracy(
    memory: Mapping[str, Any], point: Point, classes: int | None, enough: int
) -> tuple[dict[str, Any], Verdict]:
    """Add an accuracy to the memory of its mode, and say whether all were at chance.

    They are if the mean of each quarter is: a model that has learned had other means at least at
    the end.
    """
    after = {**sketched(memory, point.value), "saves": memory.get("saves", 0) + 1}
    if classes is None:
        missing = "no number of classes: neither an output bias nor the loss of a random guess"
        return after, not_applicable(Reason.NO_TENSOR, missing)
    blocks, chance = after["blocks"], 1.0 / classes
    if after["saves"] < enough or len(blocks) < 4:
        return after, UNDECIDED
    quarters = [blocks[at * len(blocks) // 4 : (at + 1) * len(blocks) // 4] for at in range(4)]
    means = [fmean(quarter) for quarter in quarters]
    error = _ERRORS * fmean(map(deviation, quarters, means)) / len(quarters[0]) ** 0.5
    if max(abs(mean - chance) for mean in means) > max(error, _NEAR * chance):
        return after, HEALTHY
    if error > _SURE * chance:
        return after, UNDECIDED
    detail = (
        f"{point.tensor.name} is {means[-1]:.3g} after {after['saves']} saves, no better than at "
        f"the start: chance for {classes} classes is {chance:.3g}"
    )
    evidence = {"accuracy": means[-1], "chance": chance}
    return after, violation(Reason.BELOW_THRESHOLD, detail, point.tensor, **evidence)
