"""Contracts of boosted trees."""

from __future__ import annotations

from tocsin.contracts.contract import Contract
from tocsin.model import Severity

TREES = (
    Contract(
        "xgboost_parameters_ignored",
        Severity.WARNING,
        "xgb.train ignores parameters of the estimator classes in params",
        "it trains ten rounds, or does not stop early",
        "pass num_boost_round=… and early_stopping_rounds=… as arguments",
    ),
    Contract(
        "learning_rate_times_rounds_too_small",
        Severity.WARNING,
        "learning rate × rounds is too small: eta times the number of rounds is below 0.3",
        "the trees hardly move predictions away from the base score",
        "use more rounds with early_stopping_rounds, or a larger eta",
    ),
    Contract(
        "rounds_too_few",
        Severity.WARNING,
        "the evaluation loss falls as fast in the last rounds as in the first ones",
        "training ends long before the trees have learned what they can",
        "use more rounds with early_stopping_rounds, or a larger eta; check lambda and "
        "max_delta_step",
    ),
    Contract(
        "min_child_weight_too_large",
        Severity.WARNING,
        "min_child_weight allows at most one split per tree",
        "each leaf must hold more than a third of the rows, whatever max_depth is",
        "use 1 to a hundredth of the rows: with squared errors it counts rows",
    ),
    Contract(
        "labels_outside_training_range",
        Severity.WARNING,
        "all labels of an evaluated data set lie outside the range of the training labels",
        "trees cannot extrapolate",
        "shuffle rows before splitting; for values that grow with time, predict the change",
    ),
    Contract(
        "trees_without_splits",
        Severity.WARNING,
        "after ten rounds no tree has a split",
        "the model predicts the same value for all rows",
        "check gamma, min_child_weight, lambda, max_depth and the labels",
    ),
)
