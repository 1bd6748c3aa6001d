"""Reads from a booster its parameters, and how much each feature counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

IMPORTANCE_TYPES = ("weight", "gain", "cover", "total_gain", "total_cover")

_MOST_FEATURES = 1000
"""Of larger models only the features in use are listed."""


def configuration(booster: Any) -> dict[str, Any]:
    """Return the learner in ``Booster.save_config``."""
    learner: dict[str, Any] = json.loads(booster.save_config())["learner"]
    return learner


def has_trees(learner: Mapping[str, Any]) -> bool:
    """Return whether it is a model of trees (gbtree, dart), not a linear one."""
    return bool(learner["gradient_booster"]["name"] != "gblinear")


def has_scores(learner: Mapping[str, Any]) -> bool:
    """Return whether predictions are in another unit than labels: ranks, hazards, or logarithms of
    odds. The labels of survival are times, with a sign or bounds."""
    name = str(learner["objective"]["name"])
    return name == "binary:logitraw" or name.startswith(("rank:", "survival:"))


def hyperparameters(learner: Mapping[str, Any]) -> dict[str, int | float | str]:
    """Return all parameters with their effective values, by name; the metrics as
    ``eval_metric``."""
    found: dict[str, int | float | str] = {}
    for name, text in _parameters(learner):
        if text != "":
            found.setdefault(name, _number(text))
    metrics = [str(metric["name"]) for metric in learner.get("metrics", ())]
    if metrics:
        found.setdefault("eval_metric", ",".join(metrics))
    return found


def importances(booster: Any, kind: str) -> dict[str, float]:
    """Return the share of each feature in the importance of this ``kind``; together 1.

    Features that no tree is split by are left out; by ``weight`` they have 0.
    """
    scores: dict[str, float] = booster.get_score(importance_type=kind)
    features = booster.num_features() if kind == "weight" else 0
    if 0 < features <= _MOST_FEATURES:
        names = booster.feature_names or [f"f{index}" for index in range(features)]
        scores = dict.fromkeys(names, 0.0) | scores
    total = sum(scores.values()) or 1.0
    return {feature: score / total for feature, score in scores.items()}


def _parameters(node: Any) -> Iterator[tuple[str, str]]:
    """Names and values in all parts of a configuration, those of the model's state left out."""
    if isinstance(node, list):
        for each in node:
            yield from _parameters(each)
        return
    for key, value in node.items():
        if isinstance(value, str) and key != "name":
            yield key, value
        elif isinstance(value, dict | list) and key not in ("metrics", "gbtree_model_param"):
            yield from _parameters(value)


def _number(text: str) -> int | float | str:
    """A number if it is one: 0.300000012, as float32 are written, is 0.3."""
    try:
        if abs(whole := int(text)) < 2**63:
            return whole
        return float(whole)
    except ValueError:
        pass
    try:
        return float(str(np.float32(text)))
    except ValueError:
        return text
