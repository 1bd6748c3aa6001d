"""Loads rules from files: a folder on this machine, or the one that a deployment includes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from tocsin.custom.rule import Rule
from tocsin.custom.smdebug_modules import smdebug_names
from tocsin.rules import BadRule, forget, load_packages, register
from tocsin.user_files import BadFile, files_in, module_name, run_file

CUSTOM = "tocsin_custom_rules"
"""The name of a deployment's folder of rule files in its layer, as a package."""


def load_installed() -> None:
    """Load the rules of other distributions (entry points ``tocsin.rules``), and those of package
    ``tocsin_custom_rules`` if there is one. Warns of a file in it that fails, and loads the others.
    """
    load_packages()
    spec = find_spec(CUSTOM)
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in files_in(Path(folder)):
            try:
                _load(file)
            except BadRule as error:
                warnings.warn(f"its rules are not known: {error}", stacklevel=2)


def load_files(path: str | Path) -> None:
    """Load the rules of a file, or of each file in a folder, by running it.

    Rules register themselves (``@register``); those written for smdebug are found. A file whose
    name begins with ``_`` is a helper for the others (``from ._helpers import …``). Raises BadRule
    for a file that fails, and where there is none.
    """
    path = Path(path)
    if not path.exists():
        raise BadRule(f"{path}: there is no such file or folder of rules")
    files = list(files_in(path)) if path.is_dir() else [path]
    if not files:
        raise BadRule(f"{path}: no file in it whose name ends in .py")
    for file in files:
        _load(file)


def _load(file: Path) -> None:
    """Run a file, and register the rules in smdebug's style that are in it. Raises BadRule."""
    name = module_name(file, CUSTOM)
    try:
        with smdebug_names():
            module = run_file(file, CUSTOM)
        for rule in _for_smdebug(module):
            register(rule)
    except BadFile as error:
        forget(name)
        raise BadRule(f"{error}{_hint(error.__cause__)}") from error
    except Exception as error:
        forget(name)
        del sys.modules[name]
        said = " ".join(str(error).split())
        raise BadRule(f"{file.resolve()}: {type(error).__name__}: {said}") from error


def _hint(error: BaseException | None) -> str:
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("smdebug"):
        return " (of smdebug, rule files get what rules and trials need, not hooks or frameworks)"
    return ""


def _for_smdebug(module: ModuleType) -> Iterator[type[Rule]]:
    """Yield the rules in smdebug's style that a module itself defines."""
    for name, value in list(vars(module).items()):
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and issubclass(value, Rule) and value.is_for_smdebug() and not name.startswith("_"):
            yield value
