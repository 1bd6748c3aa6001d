"""The root command: whatever goes wrong is one line on stderr and exit code 2."""

from __future__ import annotations

import io
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tocsin.cli._errors import reason
from tocsin.cli._output import note

WRONG = 2
INTERRUPTED = 130


class Root(TyperGroup):
    """Commands return their exit code. There are no tracebacks: an uncaught exception would
    exit with 1, which says that issues were found.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a name need not fit a terminal's encoding
                stream.reconfigure(errors="backslashreplace")
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        except Exception as error:  # noqa: BLE001  # one line, never a traceback
            note(reason(error))
            sys.exit(WRONG)
        sys.exit(code if isinstance(code, int) else 0)
