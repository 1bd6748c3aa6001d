"""Rules that are not Tocsin's own: those of other distributions, and those in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tocsin.cli._errors import Problem
from tocsin.rules import BadRule, load_files, load_installed
from tocsin.watch import Watch


def load_rules(files: Sequence[str | Path] = ()) -> None:
    """Makes the installed rules known, and those of ``files``, each a file or a folder.

    Raises Problem if one of the installed cannot be imported, BadRule if a file fails.
    """
    try:
        load_installed()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise Problem(f"a package that offers rules cannot be loaded: {what}") from error
    for path in files:
        load_files(path)


def load_custom_rules(watch: Watch, file: str | Path) -> None:
    """Makes the rules of a watch file's ``custom_rules`` known; the path begins at the file.

    Raises BadRule.
    """
    if watch.custom_rules is None:
        return
    try:
        load_files(Path(file).parent / watch.custom_rules)
    except BadRule as error:
        raise BadRule(f"custom_rules: {error}") from error
