"""Rules that other distributions bring."""

from __future__ import annotations

from tocsin.cli._errors import Problem
from tocsin.rules import load_installed


def load_rules() -> None:
    """Makes the installed rules known. Problem if one of them cannot be imported."""
    try:
        load_installed()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise Problem(f"a package that offers rules cannot be loaded: {what}") from error
