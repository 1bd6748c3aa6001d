from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from tocsin.model import Reason, Severity, Verdict
from tocsin.rules import Meta, Reads, Rule, State, Step, register
from tocsin.rules._verdicts import HEALTHY, UNDECIDED, measured, not_applicable, violation
from tocsin.rules.trees._importances import IMPORTANCES, SHAP, importances


@register
@dataclass(frozen=True)
class UnusedFeatures(Rule):
    """A boosted model ignores nearly all of its features.

    Fires when at least the share ``threshold`` of the features is unused: no tree splits by them,
    and their importance by ``weight`` is zero or missing. Judges after ``rounds`` boosting rounds
    and one round for each feature, since before that there may be too few splits for all features.
    The number of features must be known: SHAP values are saved, or the importances of all features
    in one vector or with zeros. The rule is low feature importance in Rauschmayr et al. 2021,
    table 1.

    Parameters
    ----------
    threshold: largest share of unused features, from 0 to 1.
    rounds: number of boosting rounds before the first verdict.

    Example: after 200 rounds only one of thirty features is used.
    """

    options: ClassVar[Mapping[str, Any]] = {"for_steps": 3}
    severity: ClassVar[Severity] = Severity.INFO
    causes: ClassVar[str] = (
        "The other columns are constant, empty or copies of the used ones, one feature leaks the "
        "label, or regularisation (gamma, min_child_weight) forbids further splits."
    )
    advice: ClassVar[str] = (
        "Check that the columns were read and joined properly and that the used features are "
        "known at the time of prediction, and remove features without information."
    )

    threshold: Annotated[float, Meta(gt=0, le=1)] = 0.95
    rounds: Annotated[int, Meta(ge=0)] = 50

    def reads(self) -> Reads:
        return Reads({"importances": IMPORTANCES, "shap": SHAP})

    def evaluate(self, state: State, step: Step) -> tuple[State, Verdict]:
        found = importances(step.tensors["importances"], step.tensors["shap"])
        found = [one for one in found if one.known]
        if not found:
            return state, not_applicable(Reason.NO_TENSOR, "no importances of all features")
        judged = [one for one in found if step.mode_step >= max(self.rounds, one.features)]
        if not judged:
            return state, UNDECIDED
        worst = max(judged, key=lambda one: one.unused / one.features)
        unused, share = worst.unused, worst.unused / worst.features
        if unused < self.threshold * worst.features:
            return state, measured(HEALTHY, share, self.threshold)
        detail = (
            f"{unused} of {worst.features} features are not used after {step.mode_step} rounds; "
            f"the most important is {worst.tensor.name}"
        )
        evidence = {"unused_share": share, "features": worst.features}
        fault = violation(Reason.ABOVE_THRESHOLD, detail, worst.tensor, **evidence)
        return state, measured(fault, share, self.threshold)
