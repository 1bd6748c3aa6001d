"""Errors of a command: one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from traceback import extract_tb
from typing import Any

import typer
from typer.core import TyperGroup

from tocsin.cli.display import one_line
from tocsin.cli.output import note, silence_stdout
from tocsin.installing import install

WRONG = 2
INTERRUPTED = 130


class CommandError(Exception):
    """The command or its input is wrong; the message is one line that says how to fix it."""


class CommandGroup(TyperGroup):
    """Commands return their exit code.

    An uncaught exception would exit with 1, which says that issues were found.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a name need not fit a terminal's encoding
                stream.reconfigure(errors="backslashreplace")
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # the reader has seen enough help
                silence_stdout()
                sys.exit(0)
            raise
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001  # one line, never a traceback
            note(reason(error))
            sys.exit(WRONG)
        sys.exit(code if isinstance(code, int) else 0)


def reason(error: Exception) -> str:
    """``error`` in one line, for the person who typed the command."""
    return one_line(_reason(error)) or type(error).__name__


def _reason(error: Exception) -> str:
    if hasattr(error, "format_message"):  # the command line itself is wrong
        context = getattr(error, "ctx", None)
        hint = f" (try '{context.command_path} --help')" if context else ""
        message = error.format_message().replace("Value error, ", "")
        return f"{message.rstrip('.')}{hint}"
    if isinstance(error, ModuleNotFoundError) and error.name in ("boto3", "botocore"):
        return f"this needs boto3: {install('aws')}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'files'}: {error.strerror.lower()}"
    if type(error).__module__.startswith("botocore."):
        return f"AWS: {error}"
    if isinstance(error, _expected()):
        return str(error)
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    return f"{type(error).__name__}: {error} (in {place}; a bug in Tocsin: please report it)"


def _expected() -> tuple[type[Exception], ...]:
    """Error types whose messages are complete. Imports no module to find them."""
    found: list[type[Exception]] = [CommandError, ValueError, OSError, ImportError]
    for module, name in (("tocsin.tensors", "NotFound"), ("local.error", "LocalError")):
        if loaded := sys.modules.get(module):
            found.append(getattr(loaded, name))
    return tuple(found)
