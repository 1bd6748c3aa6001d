"""Tells training losses, validation losses and metrics apart, mostly by their names."""

from __future__ import annotations

import re
from functools import lru_cache

from tocsin.model import HELD_OUT, TRAINED, Mode, Role
from tocsin.rules._rule import Read, Tensor
from tocsin.rules._series import MOST_NAMES, SCALAR_FIELDS
from tocsin.rules._shared import shared

# XGBoost: train-rmse, validation_0-rmse. LightGBM: training's l2, valid_0's l2. Others: val_loss.
_PREFIX = re.compile(
    r"d?(?:(train(?:ing)?)|val(?:id(?:ation)?)?|eval(?:uation)?|test|dev|held(?:_?out)?|hold_?out)"
    r"(?:_?\d+)?(?:'s)?(?:[-_/.: ]+|$)",
    re.IGNORECASE,
)

# The metric at the end of a name of XGBoost, whose data set may have any name: out-of-time-rmse.
_METRIC = re.compile(
    r"(?<=-)(?:(?:cox|poisson|gamma|tweedie|aft)-(?:nloglik|deviance)|rmsle|rmse|mae|mape|mphe|"
    r"m?logloss|m?error|aucpr|auc|pre|ndcg|map)(?:@[\d.]+)?-?$"
)

# Names of losses among the metrics of XGBoost, LightGBM and users.
_LOSS = re.compile(
    r"loss|(?<![a-z])(?:m?error|rmsle|r?mse|l[12]|mae|mape|mphe|nll|nloglik|deviance|perplexity)(?![a-z])",
    re.IGNORECASE,
)


def read_losses(regex: tuple[str, ...]) -> Read:
    """Read losses and metrics, or the tensors that a user names."""
    read = Read(roles=(Role.LOSS, Role.METRIC), fields=SCALAR_FIELDS)
    return read.explicitly((), regex)


@shared
def select_losses(tensors: tuple[Tensor, ...], regex: tuple[str, ...]) -> tuple[Tensor, ...]:
    """Select losses by role, and metrics that are losses by their names. Tensors that a user names
    are all selected.
    """
    return tuple([t for t in tensors if regex or t.role is not Role.METRIC or _is_loss(t.name)])


@lru_cache(MOST_NAMES)
def _is_loss(name: str) -> bool:
    return _LOSS.search(name) is not None


def classify_loss(mode: Mode, tensor: Tensor) -> tuple[bool | None, str]:
    """Return whether a loss is a validation loss, and return its name without that prefix.

    None stands for neither a validation loss nor a training loss. What the hook knows of the data
    set counts first: ``validation_0-rmse`` of XGBoost may be of the training data. If the name has
    no such prefix, the mode decides. A run without modes is training.
    """
    return _classified(mode, tensor.name, tensor.kind)


@lru_cache(MOST_NAMES)
def _classified(mode: Mode, name: str, kind: str | None) -> tuple[bool | None, str]:
    found = _PREFIX.match(name)
    base = name[found.end() :] if found else name
    if kind in (TRAINED, HELD_OUT):
        metric = _METRIC.search(name)
        own = metric[0] if metric else name.partition("-")[2]
        return kind == HELD_OUT, base if found else own or name
    if found:
        return found[1] is None, base
    return (None if mode is Mode.PREDICT else mode is Mode.EVAL), base


def without_prefix(name: str) -> str:
    """Return the name of a loss without its data set: ``loss`` for train_loss and val_loss."""
    found = _PREFIX.match(name)
    return name[found.end() :] if found else name


def is_metric_of_trees(name: str) -> bool:
    """Return whether a tensor has the name that XGBoost gives to a metric of a data set."""
    return bool(_METRIC.search(name))
