"""Advice of a rule for the kind of model that a violation shows."""

from __future__ import annotations

from tocsin.installing import page
from tocsin.rules._loss_names import is_metric_of_trees
from tocsin.rules._rule import Rule

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

SIMPLER_TREES = (
    "Lower max_depth and eta, raise min_child_weight, lambda or gamma, use subsample and "
    "early_stopping_rounds, and preprocess evaluation rows in the same way as training rows."
)
"""Advice for boosted trees that do not generalise."""


def advice_for(rule: type[Rule] | None, tensor: str | None) -> str:
    """Return a rule's advice for the trained model, by the tensor of its violation."""
    if rule is None:
        return ""
    trees = rule.advice_for_trees if tensor and is_metric_of_trees(tensor) else ""
    return trees or rule.advice


def page_of(rule: type[Rule] | None) -> str:
    """Return the address of a rule's page; empty where there is none, as of custom rules."""
    if rule is None or not rule.__module__.startswith("tocsin.rules."):
        return ""
    return page(f"docs/rules/{rule.__name__}")
