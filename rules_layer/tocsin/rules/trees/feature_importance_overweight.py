from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import PROFILES, Meta, Read, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.trees._importances import IMPORTANCES, SHAP, Importances, importances


@register
@dataclass(frozen=True)
class FeatureImportanceOverweight(Rule):
    """A few features decide nearly everything in a boosted model.

    Fires when the ``nfeatures`` most important features have more than the share ``threshold`` of
    the importance. The importance is XGBoost's ``weight``: the number of splits by a feature.

    This condition alone fires on every model with few features, and on most models in their first
    rounds. So profile ``recommended`` judges models with at least ``least_features`` features,
    after ``settled`` rounds without a new feature, and fires after three saves in a row. The number
    of features is known if SHAP values or one vector of all importances are saved; else it is the
    number of features that trees split by.

    Parameters
    ----------
    threshold: largest share of the importance, from 0 to 1.
    nfeatures: number of features that share it.
    tensor_regex: which importances to judge; those of one folder (``feature_importance/weight/``)
        are judged together.
    least_features: models with fewer features are not judged.
    settled: boosting rounds without a new feature before a model is judged.

    Example: two of twenty features have 90 % of all splits, because one of them leaks the label.
    """

    profiles: ClassVar[tuple[str, ...]] = PROFILES
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "tensor_regex": (".*feature_importance/weight",),
        "least_features": 0,
        "settled": 0,
    }
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "A feature leaks the label (it is computed from it, or known only afterwards), a feature "
        "is an identifier, or the other features carry no information."
    )
    advice: ClassVar[str] = (
        "Check that the strongest features are known at the time of prediction, train without "
        "them to compare, and look at columns of many different values such as identifiers."
    )

    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.8
    nfeatures: Annotated[int, Meta(ge=1)] = 3
    tensor_regex: tuple[str, ...] = ()
    least_features: Annotated[int, Meta(ge=0)] = 10
    settled: Annotated[int, Meta(ge=0)] = 20

    def reads(self) -> Reads:
        tensors: dict[str, Read] = {"importances": IMPORTANCES.explicitly((), self.tensor_regex)}
        return Reads({**tensors, "shap": SHAP})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        found = importances(step.tensors["importances"], step.tensors["shap"])
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no feature importances")
        judged = [one for one in found if one.features >= self.least_features]
        if not judged:
            few = max(one.features for one in found)
            detail = f"{few} features, less than least_features {self.least_features}"
            return state, not_applicable(Reason.NO_TENSOR, detail)
        after = _grown(state, judged, step.mode_step)
        shares = [
            (math.fsum(one.values[: self.nfeatures]) / total, one)
            for one in judged
            if (total := math.fsum(one.values)) > 0
        ]
        if not shares:
            return after, UNDECIDED  # trees of a single leaf
        share, worst = max(shares, key=lambda pair: pair[0])
        if share <= self.threshold:
            return after, measured(HEALTHY, share, self.threshold)
        if step.mode_step - after[worst.tensor.worker][1] < self.settled:
            return after, UNDECIDED
        few = min(self.nfeatures, len(worst.values))
        detail = (
            f"{few} of {worst.features} features have {share:.3g} of the importance, above "
            f"threshold {self.threshold:g}; the first of them is {worst.tensor.name}"
        )
        evidence = {"share": share, "threshold": self.threshold, "features": worst.features}
        fault = violation(Reason.ABOVE_THRESHOLD, detail, worst.tensor, **evidence)
        return after, measured(fault, share, self.threshold)


def _grown(state: State, found: list[Importances], now: int) -> State:
    """Return the largest number of used features of each worker, and the round that reached it."""
    after = dict(state)
    for one in found:
        used = one.features - one.unused
        if used > after.get(one.tensor.worker, (-1, 0))[0]:
            after[one.tensor.worker] = [used, now]
    return after
