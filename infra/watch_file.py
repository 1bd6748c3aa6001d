"""The watch configuration for runs that bring none of their own: a file, read at deployment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from infra.options import OptionError


def default_watch(path: Path | None) -> str:
    """The watch file as JSON text; without a file the empty one, whose defaults apply.

    What is wrong with the file, or with its custom rules, is found now and not when the first
    job trains: OptionError. The files of ``custom_rules`` are run for that.
    """
    if path is None:
        return "{}"
    from tocsin.rules import BadRule, load_files, load_installed
    from tocsin.watch import BadWatch, encode_watch, read_watch, resolve

    load_installed()

    try:
        watch = read_watch(path)
        if (folder := custom_rules(path)) is not None:
            load_files(folder)
    except BadWatch as error:
        raise OptionError(f"option watchFile: {error}") from error
    except BadRule as error:
        raise OptionError(f"option watchFile: {path}: custom_rules: {error}") from error
    _, refused = resolve(watch)
    if refused:
        raise OptionError(f"option watchFile: {path}: {refused[0].reason}")
    return encode_watch(replace(watch, custom_rules=None)).decode()  # they are in the layer


def custom_rules(path: Path | None) -> Path | None:
    """The folder of the watch file's ``custom_rules``, which begins at the file. OptionError."""
    if path is None:
        return None
    from tocsin.watch import BadWatch, read_watch

    try:
        watch = read_watch(path)
    except BadWatch as error:
        raise OptionError(f"option watchFile: {error}") from error
    if watch.custom_rules is None:
        return None
    folder = path.parent / watch.custom_rules
    if not folder.is_dir():
        raise OptionError(f"option watchFile: {path}: custom_rules: {folder} is no folder")
    return folder
