"""Purity of losses: one that is a function of its arguments alone may be computed again."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, ModuleType, np.generic, np.dtype)
_LIBRARIES = frozenset({"jax", "keras", "math", "numpy", "tensorflow", "torch"})
_STORES = frozenset({"DELETE_ATTR", "DELETE_SUBSCR", "STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR"})
_EFFECTS = frozenset(
    {"append", "assign", "assign_add", "assign_sub", "eval", "exec", "extend", "globals", "input"}
    | {"insert", "next", "open", "pop", "print", "send", "setattr", "update", "write"}
)
_WHEN_MADE = frozenset({"__init__", "from_config", "get_config"})
_MOST_PARTS = 200


def is_pure(function: Any) -> bool:
    """Return whether a function, or a loss of Keras, shows by its code and by what it refers to
    that it keeps nothing: no attribute, variable, list or element of an array is changed by a call.

    Functions of libraries are trusted; Keras' own variables are for the caller to protect. What is
    not known to be pure is not.
    """
    waiting, seen = [function], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        try:
            parts = _parts(found)
        except ValueError:  # a name that has no value yet
            return False
        if parts is None or len(seen) > _MOST_PARTS:
            return False
        waiting += parts
    return True


def _parts(given: Any) -> list[Any] | None:
    """Return what else must be pure for this to be so; None if it is not, or not known to be."""
    if isinstance(given, (*_PLAIN, BuiltinFunctionType)):
        return []
    if isinstance(given, tuple | frozenset):
        return [*given]
    if isinstance(given, functools.partial):
        return [given.func, *given.args, *given.keywords.values()]
    if isinstance(given, MethodType):
        return [given.__func__, given.__self__]
    library = str(getattr(given, "__module__", None) or type(given).__module__).split(".")[0]
    if isinstance(given, FunctionType):
        return [] if library in _LIBRARIES else _parts_of_function(given)
    if isinstance(given, keras.losses.Loss) and library != "keras":
        return [*vars(given).values(), *_methods(type(given))]
    if isinstance(given, np.ndarray) or (keras.ops.is_tensor(given) and not _is_variable(given)):
        return []
    known = library == "keras" or type(given).__module__ == "numpy"
    return [] if known else None


def _methods(owner: type) -> list[Any]:
    """Return the functions that a loss may call, in addition to those of Keras."""
    known = (*_LIBRARIES, "builtins")
    own = [each for each in owner.__mro__ if each.__module__.split(".")[0] not in known]
    found = {name: method for each in reversed(own) for name, method in vars(each).items()}
    return [each for name, each in found.items() if name not in _WHEN_MADE and callable(each)]


def _is_variable(given: Any) -> bool:
    return hasattr(given, "assign") or bool(getattr(given, "requires_grad", False))


def _parts_of_function(function: FunctionType) -> list[Any] | None:
    names = set[str]()
    for code in _codes(function.__code__):
        for each in dis.get_instructions(code):
            keeps = each.opname in ("STORE_DEREF", "DELETE_DEREF") and each.argval in (
                function.__code__.co_freevars
            )
            if keeps or each.opname in _STORES:
                return None
            if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(each.argval)
        if any(name in _EFFECTS or _is_in_place(name) for name in code.co_names):
            return None
    cells = [each.cell_contents for each in function.__closure__ or ()]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    return [*cells, *defaults, *known]


def _is_in_place(name: str) -> bool:
    """Return whether a name is that of an in-place operation of PyTorch, like ``add_``."""
    return name.endswith("_") and not name.startswith("_")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
