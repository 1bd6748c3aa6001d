"""The command ``tocsin``, also as ``python -m tocsin``."""

from __future__ import annotations

import sys

from tocsin.installing import install

_TERMINAL = ("typer", "rich", "click", "pydantic")  # what the extra installs, and is under it


def main() -> None:
    try:
        from tocsin.cli import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _TERMINAL:
            raise
        sys.stderr.write(f"tocsin: the command line needs more: {install('cli')}\n")
        sys.exit(2)
    app(prog_name="tocsin")


if __name__ == "__main__":
    main()
