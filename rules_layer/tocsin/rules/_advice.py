"""Advice of a rule for the kind of model that a violation shows."""

from __future__ import annotations

from tocsin.rules._rule import Rule
from tocsin.rules._train_eval import is_metric_of_trees

SMALLER_ETA = (
    "Lower eta (learning_rate), whose default is 0.3: above 1 each round overshoots. Check labels "
    "for outliers, and the gradient and the Hessian of a custom objective."
)
"""Advice for boosted trees that diverge; they have no gradients that could be clipped."""

MORE_TREES = (
    "Raise eta (learning_rate) or the number of rounds, allow deeper trees, lower "
    "min_child_weight, gamma and lambda, and check that inputs have the right labels."
)
"""Advice for boosted trees that learn too little."""


def advice_for(rule: type[Rule] | None, tensor: str | None) -> str:
    """Return a rule's advice for the trained model, by the tensor of its violation."""
    if rule is None:
        return ""
    trees = rule.advice_for_trees if tensor and is_metric_of_trees(tensor) else ""
    return trees or rule.advice
