"""A model by the name of what makes it: ``module:factory`` or ``file.py:factory``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any


class NoModel(Exception):
    """No model has that name; the message lists similar names."""


def made_by(target: str) -> Any:
    """Return the object that ``target`` names, called if it is not a model itself. Raises
    NoModel."""
    where, colon, attribute = target.rpartition(":")
    if not (colon and where and attribute):
        raise NoModel(f"{target!r} must be module:factory or file.py:factory")
    try:
        found = attrgetter(attribute)(_imported(where))
    except AttributeError as error:
        raise NoModel(f"{where} has no {attribute}: {error}") from error
    from torch.nn import Module

    try:
        model = found() if callable(found) and not isinstance(found, Module) else found
    except Exception as error:
        raise NoModel(f"{target} failed: {type(error).__name__}: {error}") from error
    if not isinstance(model, Module):
        raise NoModel(f"{target} gives a {type(model).__name__}, which is not a PyTorch model")
    return model


def _imported(where: str) -> ModuleType:
    """The module, or the file as one. Raises NoModel."""
    try:
        return _from_file(Path(where)) if where.endswith(".py") else import_module(where)
    except Exception as error:
        raise NoModel(f"cannot import {where}: {type(error).__name__}: {error}") from error


def _from_file(path: Path) -> ModuleType:
    """Run under its own name, beside its neighbours, as it would be imported."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    sys.path.insert(0, str(path.resolve().parent))
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
