"""The watch file for runs that have none. It is read at deployment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin_cdk.option_parsers import OptionError

if TYPE_CHECKING:
    from tocsin.watch import Watch


def default_watch(
    path: Path | None,
    allowed: Collection[str] | None = None,
    webhooks: Collection[str] | None = None,
) -> str:
    """Return the watch file as JSON text; without a file an empty one, which has the defaults.

    Raises OptionError with a line for each fault of the file or its custom rules, and runs the
    files of ``custom_rules`` for that. Leaves out silences that have ended.
    ``allowed`` are the recipients and ``webhooks`` the endpoints of the deployment; None is any.
    """
    if path is None:
        return "{}"
    from tocsin.watch import encode_watch

    watch, now = _checked(path, allowed, webhooks), datetime.now(UTC)
    silences = tuple(each for each in watch.silences if each.until > now)
    deployed = replace(watch, silences=silences, custom_rules=None)  # rules are in the layer
    return encode_watch(deployed).decode()


def custom_rules(path: Path | None) -> Path | None:
    """Return the folder of the watch file's ``custom_rules``, relative to the file. Raises
    OptionError."""
    if path is None or (folder := _checked(path).custom_rules) is None:
        return None
    return path.parent / folder


def _checked(
    path: Path,
    allowed: Collection[str] | None = None,
    webhooks: Collection[str] | None = None,
) -> Watch:
    from tocsin.actions import recipients
    from tocsin.custom import load_files, load_installed
    from tocsin.watch import lint

    load_installed()
    watch, problems = lint(path, recipients(allowed, webhooks), load_files)
    if watch is None or problems:
        raise OptionError("\n".join(f"option watchFile: {wrong.at(path)}" for wrong in problems))
    return watch
