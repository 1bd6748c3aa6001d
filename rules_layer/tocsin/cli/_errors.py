"""What is wrong with a command or its input, as the one line that is said of it."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import extract_tb

from tocsin.cli._text import one_line


class Problem(Exception):
    """The command or its input is wrong; the message is one line that says how to mend it."""


def reason(error: Exception) -> str:
    """``error`` for whoever typed the command."""
    return one_line(_reason(error)) or type(error).__name__


def _reason(error: Exception) -> str:
    if hasattr(error, "format_message"):  # the command line itself is wrong
        context = getattr(error, "ctx", None)
        hint = f" (try '{context.command_path} --help')" if context else ""
        said = error.format_message().replace("Value error, ", "")
        return f"{said.rstrip('.')}{hint}"
    if isinstance(error, ModuleNotFoundError) and error.name in ("boto3", "botocore"):
        return "this needs boto3: pip install 'tocsin[aws]'"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'files'}: {error.strerror.lower()}"
    if type(error).__module__.startswith("botocore."):
        return f"AWS: {error}"
    if isinstance(error, _expected()):
        return str(error)
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    return f"{type(error).__name__}: {error} (in {place}; this is a bug of Tocsin, please report)"


def _expected() -> tuple[type[Exception], ...]:
    """Errors that say for themselves what is wrong. Nothing is imported for those of others."""
    found: list[type[Exception]] = [Problem, ValueError, OSError, ImportError]
    for module, name in (("tocsin.tensors", "NotFound"), ("local.error", "LocalError")):
        if loaded := sys.modules.get(module):
            found.append(getattr(loaded, name))
    return tuple(found)
