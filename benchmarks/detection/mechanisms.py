"""Mechanisms of the PyTorch hook that can be switched off here, to see what each is good for.

    TOCSIN_BENCHMARK_WITHOUT=replay python -m benchmarks.detection --keep FOLDER …

The hook has no such option: what a mechanism says is replaced from outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

VARIABLE = "TOCSIN_BENCHMARK_WITHOUT"


def _says(answer: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: answer


_TORCH = "tocsin_hooks.torch"
MECHANISMS: Mapping[str, Mapping[str, Any]] = {
    # Losses that a script computes itself are computed again with labels of other samples.
    "replay": {f"{_TORCH}.comparisons.skill:Skill.compare_by_hand": _says(False)},
    # Evaluations are known by what training computes, or by metrics with labels.
    "evaluations": {
        f"{_TORCH}.comparisons.evaluated_losses:EvaluatedLosses.recorded": _says(False),
        f"{_TORCH}.comparisons.evaluated_losses:EvaluatedLosses.left": _says(None),
        f"{_TORCH}.comparisons.evaluated_losses:EvaluatedLosses.flush": _says(None),
    },
    "target_network": {
        f"{_TORCH}.contracts.target_network:TargetNetwork.backward": _says(None),
    },
    "opponents": {f"{_TORCH}.opponents:Opponents.updated": _says(False)},
    # A policy is known by what it draws.
    "sampled_actions": {
        f"{_TORCH}.loss_comparisons:LossComparisons.draws": property(_says(False)),
    },
    "token_probe": {f"{_TORCH}.contracts.token_probe:TokenProbe._broken": _says(())},
}
"""By its name: the attributes of classes, and what takes their place."""


def switched_off() -> str:
    """The mechanism that is off in this process, by its name; usually none."""
    return os.environ.get(VARIABLE, "")


def switch_off() -> None:
    """Replace what the variable names. Raises KeyError or AttributeError if that is not there."""
    if not (name := switched_off()):
        return
    for place, stub in MECHANISMS[name].items():
        owner, attribute = resolved(place)
        setattr(owner, attribute, stub)


def resolved(place: str) -> tuple[type, str]:
    """The class of ``module:Class.attribute``, and the attribute. Raises AttributeError if it has
    none such: a renamed one is not left on in silence."""
    module, _, path = place.partition(":")
    name, _, attribute = path.partition(".")
    owner: type = getattr(import_module(module), name)
    getattr(owner, attribute)
    return owner, attribute
