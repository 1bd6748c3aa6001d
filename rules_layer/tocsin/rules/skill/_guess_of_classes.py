"""Compares evaluation losses with a uniform guess, in runs without labels or predictions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from tocsin.model import Mode, Reason, Role, Verdict
from tocsin.rules._kinds import with_level
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import Read, Step, Tensor
from tocsin.rules._series import TRAINING, points
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation
from tocsin.rules._window import rounded

GRADIENTS = Read(roles=(Role.GRADIENT,), fields=("size", "mean", "abs_mean", "max", "min"))
"""Reads gradients; the smallest may be that of the last bias."""

_MOST_CLASSES = 1000  # more classes: small runs cannot reach the loss of a guess
_NO_SUM = 1e-3  # of its sizes: largest sum of the gradients of all scores
_SAVES = 10  # of training, in which that is so
_NEARLY_ALL = 0.9  # of the saves
_SPENT = 300  # steps of training
_EVALUATIONS = 4  # before judging
_TOGETHER = 4  # saves of evaluations, whose mean counts
_BETTER = 0.01  # than a guess: once is enough
_UNIT = (0.75, 1.25)  # of the logarithm: range in which an unscaled cross-entropy begins


def judge_classes(memory: Mapping[str, Any], step: Step) -> tuple[dict[str, Any], Verdict | None]:
    """Return a violation if the evaluation loss, a mean of four saves, was never below the
    logarithm of the number of classes, which is the loss of a uniform guess. The verdict is None
    where that cannot be judged.

    The gradient of the last bias shows the classes: of a softmax and its cross-entropy it is the
    mean of shares less labels, which adds up to 0 and lies between -1 and 1. The training loss must
    begin near that logarithm, or evaluations stay there, so that it is no sum and has no weight,
    and one of the same name must be evaluated. Classes that are not equally
    frequent are guessed with less.

    The memory has the classes, of so many saves how many show them, the training loss at first and
    its name, the steps of training, and of the evaluations' loss the last saves, their lowest mean,
    the number of evaluations, and the latest of them.
    """
    losses, _ = with_level(step.tensors.get("losses", ()), named=False)
    after = dict(memory)
    if step.mode in TRAINING:
        after = _trained(after, step, losses)
        tensor = next((point.tensor for point in points(step, losses, "falls")), None)
        return after, _verdict(after, tensor) if tensor and "low" in after else None
    first, classes = after.get("first"), after.get("classes")
    if step.mode is not Mode.EVAL or first is None or classes is None:
        return after, None
    for point in points(step, losses, "falls"):
        evaluates, base = classify_loss(step.mode, point.tensor)
        if not evaluates or base != after["name"]:
            continue
        phase = step.step - step.mode_step
        new = phase != after.get("phase")
        after |= {"phase": phase, "evaluations": after.get("evaluations", 0) + new}
        before = after.get("last", ())
        low = after["low"] if len(before) == _TOGETHER else math.inf
        after["last"] = [*before, rounded(point.value) or 0.0][-_TOGETHER:]
        after["low"] = rounded(min(low, fmean(after["last"]))) or 0.0
        return after, UNDECIDED  # there may be more of this evaluation
    return after, None


def _trained(memory: dict[str, Any], step: Step, losses: Iterable[Tensor]) -> dict[str, Any]:
    memory["spent"] = step.mode_step
    if "name" not in memory:
        for point in points(step, losses, "falls"):
            if not math.isfinite(point.value):
                continue
            memory |= {"name": classify_loss(step.mode, point.tensor)[1], "first": point.value}
            break
    found = _classes(step.tensors.get("gradients", ()))
    if found is None:
        return memory
    classes, shown = found
    memory["saves"] = memory.get("saves", 0) + 1
    same = classes == memory.setdefault("classes", classes)
    memory["shown"] = memory.get("shown", 0) + (shown and same)
    return memory


def _classes(gradients: Iterable[Tensor]) -> tuple[int, bool] | None:
    """Return the size of the smallest gradient, and whether it is that of a softmax's scores."""
    known = [each for each in gradients if each.summary.size and each.summary.abs_mean]
    if not known:
        return None
    last = min(known, key=lambda each: each.summary.size or 0).summary
    size, mean, sizes = last.size or 0, last.mean or 0.0, last.abs_mean or 0.0
    most = max(abs(last.max or 0.0), abs(last.min or 0.0))
    return size, abs(mean) <= _NO_SUM * sizes and most <= 1 and 2 <= size <= _MOST_CLASSES


def _verdict(memory: Mapping[str, Any], tensor: Tensor) -> Verdict | None:
    guess = math.log(memory["classes"]) if memory["classes"] > 1 else math.nan
    low, count = memory["low"], memory["evaluations"]
    shown, saves = memory.get("shown", 0), memory.get("saves", 0)
    unit = _UNIT[0] * guess <= memory["first"] <= _UNIT[1] * guess
    unit = unit or abs(low - guess) <= _BETTER * guess
    if not unit or saves < _SAVES or shown < _NEARLY_ALL * saves:
        return None
    if low < (1 - _BETTER) * guess:
        return measured(HEALTHY, guess - low, _BETTER * guess, "below")
    if count < _EVALUATIONS or memory["spent"] < _SPENT:
        return UNDECIDED
    detail = (
        f"{tensor.name} was never below {low:.3g} in {count} evaluations; guessing among "
        f"{memory['classes']} classes gives {guess:.3g}"
    )
    evidence = {"lowest": low, "guess": guess, "evaluations": count}
    found = violation(Reason.BELOW_THRESHOLD, detail, tensor, **evidence)
    return measured(found, guess - low, _BETTER * guess, "below", "improvement")
