"""FeatureImportanceOverweight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tocsin.model import Reason, Verdict
from tocsin.rules._importances import IMPORTANCES, SHAP, Importances, importances
from tocsin.rules._registry import register
from tocsin.rules._rule import (
    HEALTHY,
    RECOMMENDED,
    SAGEMAKER,
    UNDECIDED,
    Read,
    Reads,
    Rule,
    State,
    Step,
    not_applicable,
    violation,
)


@register
@dataclass(frozen=True)
class FeatureImportanceOverweight(Rule):
    """A few features decide nearly everything in a boosted model.

    Fires when the ``nfeatures`` most important features have more than the share ``threshold`` of
    all importance, counted by XGBoost's ``weight``: how often a feature is split by. Under that
    alone every model of so few features fires, and so do most models in their first rounds, small
    trees and low learning rates longest. Profile ``recommended`` judges models of at least
    ``least_features`` features, once no new one has come into use for ``settled`` rounds, and
    fires at three saves in a row. How many features a model has is known if SHAP values are
    saved, or one vector of all importances; else those count that are split by.

    Parameters
    ----------
    threshold: largest share of the importance, 0 to 1.
    nfeatures: how many features together, at least 1.
    tensor_regex: which importances to look at; those of one folder (``feature_importance/weight/``)
        are taken together.
    least_features: models of fewer features are not judged; 0 judges all.
    settled: boosting rounds without a new feature before a model is judged; 0 for none.

    Example: two of twenty features have 90 % of all splits, one of which tells the label.
    """

    profiles: ClassVar[tuple[str, ...]] = (RECOMMENDED, SAGEMAKER)
    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    sagemaker: ClassVar[Mapping[str, Any]] = {
        "tensor_regex": (".*feature_importance/weight",),
        "least_features": 0,
        "settled": 0,
    }
    causes: ClassVar[str] = (
        "A feature gives the label away (it is computed from it, or known only afterwards), is an "
        "identifier, or the others carry no information."
    )
    advice: ClassVar[str] = (
        "Check that the strongest features are known at the time of prediction, train without "
        "them to compare, and look at columns of many different values such as identifiers."
    )

    threshold: float = 0.8
    nfeatures: int = 3
    tensor_regex: tuple[str, ...] = ()
    least_features: int = 10
    settled: int = 20

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}, but must be from 0 to 1")
        if self.nfeatures < 1:
            raise ValueError(f"nfeatures is {self.nfeatures}, but must be at least 1")
        for name in ("least_features", "settled"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 0")

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
            return after, HEALTHY
        if step.mode_step - after[worst.tensor.worker][1] < self.settled:
            return after, UNDECIDED
        few = min(self.nfeatures, len(worst.values))
        detail = (
            f"{few} of {worst.features} features have {share:.3g} of the importance, above "
            f"threshold {self.threshold:g}; the first of them is {worst.tensor.name}"
        )
        evidence = {"share": share, "threshold": self.threshold, "features": worst.features}
        return after, violation(Reason.ABOVE_THRESHOLD, detail, worst.tensor, **evidence)


def _grown(state: State, found: list[Importances], now: int) -> State:
    """By worker: how many features were used at most, and the round since when."""
    after = dict(state)
    for one in found:
        used = one.features - one.unused
        if used > after.get(one.tensor.worker, (-1, 0))[0]:
            after[one.tensor.worker] = [used, now]
    return after
