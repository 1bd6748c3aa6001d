"""Stand-ins for the modules of smdebug, while a rule file written for it is loaded or runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

_MODULES = (
    "",
    "analysis",
    "analysis.utils",
    "core",
    "core.access_layer",
    "core.access_layer.utils",
    "core.collection",
    "core.logger",
    "core.modes",
    "core.reduction_config",
    "core.reductions",
    "core.sagemaker_utils",
    "core.save_config",
    "core.tensor",
    "exceptions",
    "rules",
    "rules.action",
    "rules.req_tensors",
    "rules.rule",
    "rules.rule_invoker",
    "trials",
    "trials.trial",
    "trials.utils",
)
"""Of ``tocsin.smdebug``: what rules and trials need, without hooks and frameworks."""


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
    for below in _MODULES:
        ours = import_module(f"tocsin.smdebug.{below}".rstrip("."))  # a room above this one
        name = f"smdebug.{below}".rstrip(".")
        modules[name] = module = ModuleType(name, "A stand-in by Tocsin for rule files.")
        content = {each: getattr(ours, each) for each in getattr(ours, "__all__", ())}
        vars(module).update(content, __path__=[])
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(modules[parent], own, module)
    return modules
