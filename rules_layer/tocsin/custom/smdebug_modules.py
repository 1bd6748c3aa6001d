"""Stand-ins for the modules of smdebug, while a rule file written for it is loaded or runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from tocsin.custom.invoke import invoke_rule
from tocsin.custom.required import RequiredTensors, RequiredTensorsForTrial
from tocsin.custom.rule import Rule
from tocsin.model import Mode
from tocsin.trial import exceptions
from tocsin.trial.create import create_trial
from tocsin.trial.reduce import reduce_value
from tocsin.trial.refreshing import no_refresh, refresh
from tocsin.trial.state import StepState
from tocsin.trial.tensor import TrialTensor
from tocsin.trial.trial import Trial

_COLLECTIONS = (
    *("default", "all", "inputs", "outputs", "weights", "gradients", "losses", "biases", "layers"),
    *("sm_metrics", "optimizer_variables", "tensorflow_summaries", "metrics", "hyperparameters"),
    *("predictions", "labels", "feature_importance", "average_shap", "full_shap", "trees"),
)


@contextmanager
def smdebug_names() -> Iterator[None]:
    """Inside, ``import smdebug…`` finds the names that rules need; a real smdebug comes back."""
    before = {name: module for name, module in sys.modules.items() if _is_smdebug(name)}
    _put(_modules())
    try:
        yield
    finally:
        _put(before)


def _put(modules: Mapping[str, ModuleType]) -> None:
    for name in [name for name in sys.modules if _is_smdebug(name)]:
        del sys.modules[name]
    sys.modules.update(modules)


def _is_smdebug(name: str) -> bool:
    return name == "smdebug" or name.startswith("smdebug.")


@cache
def _modules() -> Mapping[str, ModuleType]:
    """The modules by their names; each knows those below it, and says so if it lacks a name."""
    modules: dict[str, ModuleType] = {}
    for name, content in _names().items():
        modules[name] = module = ModuleType(name, "A stand-in by Tocsin for rule files.")
        vars(module).update(content, __path__=[])
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(modules[parent], own, module)
    return modules


def _names() -> Mapping[str, Mapping[str, Any]]:
    collections = {name.upper(): name for name in _COLLECTIONS}
    rules = {
        "Rule": Rule,
        "RequiredTensors": RequiredTensors,
        "RequiredTensorsForTrial": RequiredTensorsForTrial,
        "invoke_rule": invoke_rule,
    }
    trials = {"create_trial": create_trial, "Trial": Trial}
    keys = {"CollectionKeys": SimpleNamespace(**collections)}
    return {
        "smdebug": {"modes": Mode, **keys},
        "smdebug.analysis": {},
        "smdebug.analysis.utils": {"no_refresh": no_refresh, "refresh": refresh},
        "smdebug.core": {},
        "smdebug.core.collection": keys,
        "smdebug.core.logger": {
            "get_logger": lambda name="rules": logging.getLogger("tocsin.rules")
        },
        "smdebug.core.modes": {"ModeKeys": Mode},
        "smdebug.core.reductions": {"get_numpy_reduction": _reduction},
        "smdebug.core.tensor": {"StepState": StepState, "Tensor": TrialTensor},
        "smdebug.exceptions": _errors(),
        "smdebug.rules": rules,
        "smdebug.rules.req_tensors": rules,
        "smdebug.rules.rule": rules,
        "smdebug.rules.rule_invoker": rules,
        "smdebug.trials": trials,
        "smdebug.trials.trial": trials,
        "smdebug.trials.utils": trials,
    }


def _errors() -> Mapping[str, type[Exception]]:
    """smdebug's exceptions under their names: those of a trial, and the general ones."""
    found = {
        name: value
        for name, value in vars(exceptions).items()
        if isinstance(value, type) and issubclass(value, exceptions.TrialError)
    }
    general = {
        f"SMDebug{base.__name__}": base
        for base in (TypeError, ValueError, RuntimeError, NotImplementedError)
    }
    return {"SMDebugError": exceptions.TrialError, **general, **found}


def _reduction(
    reduction_name: str,
    numpy_data: Any,
    abs: bool = False,  # noqa: A002 - the name that people know
) -> Any:
    return reduce_value(reduction_name, numpy_data, absolute=abs)
