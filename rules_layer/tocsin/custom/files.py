"""Loads rules from files: a folder on this machine, or the one that a deployment includes."""

from __future__ import annotations

import hashlib
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tocsin.custom.rule import Rule
from tocsin.custom.smdebug_modules import smdebug_names
from tocsin.rules import BadRule, forget, register

CUSTOM = "tocsin_custom_rules"
"""The name of a deployment's folder of rule files in its layer, as a package."""


def load_installed() -> None:
    """Loads the rules of other distributions (entry points ``tocsin.rules``), and those of package
    ``tocsin_custom_rules`` if there is one. Warns of a file in it that fails, and loads the others.
    """
    for entry in entry_points(group="tocsin.rules"):
        entry.load()
    spec = find_spec(CUSTOM)
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in _files(Path(folder)):
            try:
                _load(file)
            except BadRule as error:
                warnings.warn(f"its rules are not known: {error}", stacklevel=2)


def load_files(path: str | Path) -> None:
    """Loads the rules of a file, or of each file in a folder, by running it.

    Rules register themselves (``@register``); those written for smdebug are found. A file whose
    name begins with ``_`` is a helper for the others (``from ._helpers import …``). Raises BadRule
    for a file that fails, and where there is none.
    """
    path = Path(path)
    if not path.exists():
        raise BadRule(f"{path}: there is no such file or folder of rules")
    files = list(_files(path)) if path.is_dir() else [path]
    if not files:
        raise BadRule(f"{path}: no file in it whose name ends in .py")
    for file in files:
        _load(file)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_"))


def _load(file: Path) -> None:
    """Runs a file as a module under a name of its own. Raises BadRule."""
    file = file.resolve()
    name = f"{_package(file.parent)}.{file.stem}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadRule(f"{file}: not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        with smdebug_names(), _no_bytecode():
            spec.loader.exec_module(module)
        for rule in _for_smdebug(module):
            register(rule)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        forget(name)
        raise BadRule(f"{file}: {_line(error, file)}{_one_line(error)}") from error


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Writes no cache beside a rule file: it would hide an edit within the same second."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _package(folder: Path) -> str:
    """Makes a package for the files of a folder, so that they can import each other."""
    name = f"{CUSTOM}_{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"
    package = sys.modules.setdefault(name, ModuleType(name))
    package.__path__ = [str(folder)]
    return name


def _for_smdebug(module: ModuleType) -> Iterator[type[Rule]]:
    """Yields the rules in smdebug's style that a module itself defines."""
    for name, value in list(vars(module).items()):
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and issubclass(value, Rule) and value.is_for_smdebug() and not name.startswith("_"):
            yield value


def _line(error: BaseException, file: Path) -> str:
    """The line of the file that failed; a SyntaxError names its own."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"line {lines[-1]}: " if lines else ""


def _one_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    said = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("smdebug"):
        said += " (of smdebug, rule files get what rules and trials need, not hooks or frameworks)"
    return f"{type(error).__name__}: {said}"
