"""The watch configuration for runs that bring none of their own: a file, read at deployment."""

from __future__ import annotations

from pathlib import Path

from infra.options import OptionError


def default_watch(path: Path | None) -> str:
    """The watch file as JSON text; without a file the empty one, whose defaults apply.

    What is wrong with the file is found now and not when the first job trains: OptionError.
    Rules of a ``custom_rules`` folder are not known here, so with one, rules go unchecked.
    """
    if path is None:
        return "{}"
    from tocsin.rules import load_installed
    from tocsin.watch import BadWatch, encode_watch, read_watch, resolve

    load_installed()

    try:
        watch = read_watch(path)
    except BadWatch as error:
        raise OptionError(f"option watchFile: {error}") from error
    _, refused = resolve(watch)
    if refused and not watch.custom_rules:
        raise OptionError(f"option watchFile: {path}: {refused[0].reason}")
    return encode_watch(watch).decode()
