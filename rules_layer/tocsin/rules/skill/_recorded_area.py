"""Judges a recorded area under the ROC curve that is never above chance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tocsin.model import Reason, Verdict
from tocsin.rules._loss_names import classify_loss
from tocsin.rules._rule import Step
from tocsin.rules._series import MOST_SERIES, points
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, violation, worst_verdict

# XGBoost's, and names that say which curve: "auc" alone may be that of precision and recall.
_AREA = re.compile(r"(?i)-auc$|(?<![a-z])(?:roc_?auc|auc_?roc)(?![a-z])")
_CHANCE = 0.5  # area under the curve of a random order
_LEAST = 0.501  # a model with any skill has more, once


def judge_areas(
    memory: Mapping[str, Any], step: Step, enough: int
) -> tuple[Mapping[str, Any], Verdict | None]:
    """Add the areas of evaluations to the memory, and say whether one was there ``enough`` times
    and never above chance. The verdict is None if there is none.

    The memory has of each its number, and the largest. An area of 0 is one without both classes.
    """
    areas = dict(memory)
    verdicts = []
    for point in points(step, step.tensors["metrics"], "rises"):
        name = point.tensor.name
        known = name in areas or len(areas) < MOST_SERIES
        evaluates, _ = classify_loss(step.mode, point.tensor)
        if not (known and evaluates and _AREA.search(name) and 0 < point.value <= 1):
            continue
        count, best = areas.get(name, (0, 0.0))
        count, best = count + 1, max(best, point.value)
        areas[name] = (count, best)
        detail = f"{name} was never above {best:.3g} in {count} saves, and chance is {_CHANCE}"
        found = violation(Reason.BELOW_THRESHOLD, detail, point.tensor, area=best, saves=count)
        low = found if count >= enough else UNDECIDED
        verdicts.append(measured(low if best <= _LEAST else HEALTHY, best, _LEAST, "below"))
    return areas, worst_verdict(verdicts) if verdicts else None
