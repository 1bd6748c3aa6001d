"""Runs Python files that users write, of rules or of checks, under names of their own."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


class BadFile(Exception):
    """A file that fails; the message has its name, the line and the reason."""


def files_in(folder: Path) -> Iterator[Path]:
    """Return the files of a folder. One whose name begins with ``_`` is a helper for the others."""
    return (file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_"))


def module_name(file: Path, package: str) -> str:
    """Return the name that a file's module gets: no script has another module of this name."""
    folder = hashlib.sha256(str(file.resolve().parent).encode()).hexdigest()[:12]
    return f"{package}_{folder}.{file.stem}"


def run_file(file: Path, package: str) -> ModuleType:
    """Run a file as a module, in a package of its folder (``from ._helpers import …``).

    Raises BadFile.
    """
    file = file.resolve()
    name = module_name(file, package)
    parent = sys.modules.setdefault(name.rpartition(".")[0], ModuleType(name.rpartition(".")[0]))
    parent.__path__ = [str(file.parent)]
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadFile(f"{file}: not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        with _no_bytecode():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadFile(f"{file}: {_line(error, file)}{_reason(error)}") from error
    return module


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """Write no cache beside a file: it would hide an edit within the same second."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _line(error: BaseException, file: Path) -> str:
    """The line of the file that failed; a SyntaxError names its own."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"line {lines[-1]}: " if lines else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
