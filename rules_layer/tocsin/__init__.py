"""Tocsin watches training jobs from outside.

The names here are fetched when they are asked for: ``import tocsin`` by itself loads neither
numpy nor boto3 nor the terminal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.custom import Rule, invoke_rule
    from tocsin.model import Mode
    from tocsin.model import Mode as modes  # noqa: N813  # the name that smdebug's users know
    from tocsin.notebook import create_trial
    from tocsin.rules import register
    from tocsin.trial import (
        InvalidWorker,
        MissingCollectionFiles,
        NoMoreData,
        NotARun,
        RuleEvaluationConditionMet,
        ShapeUnavailableForStep,
        StepNotYetAvailable,
        StepState,
        StepUnavailable,
        TensorUnavailable,
        TensorUnavailableForStep,
        Trial,
        TrialError,
        Unreadable,
        no_refresh,
        refresh,
    )
    from tocsin.trial import (
        TrialTensor as Tensor,
    )

__all__ = [
    "InvalidWorker",
    "MissingCollectionFiles",
    "Mode",
    "NoMoreData",
    "NotARun",
    "Rule",
    "RuleEvaluationConditionMet",
    "ShapeUnavailableForStep",
    "StepNotYetAvailable",
    "StepState",
    "StepUnavailable",
    "Tensor",
    "TensorUnavailable",
    "TensorUnavailableForStep",
    "Trial",
    "TrialError",
    "Unreadable",
    "create_trial",
    "invoke_rule",
    "modes",
    "no_refresh",
    "refresh",
    "register",
]

_ELSEWHERE = {
    "Rule": ("tocsin.custom", "Rule"),
    "invoke_rule": ("tocsin.custom", "invoke_rule"),
    "Mode": ("tocsin.model", "Mode"),
    "modes": ("tocsin.model", "Mode"),
    "Tensor": ("tocsin.trial", "TrialTensor"),
    "create_trial": ("tocsin.notebook", "create_trial"),
    "register": ("tocsin.rules", "register"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _ELSEWHERE.get(name, ("tocsin.trial", name))
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
