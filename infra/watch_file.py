"""The watch configuration for runs that bring none of their own: a file, read at deployment."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from infra.options import OptionError

if TYPE_CHECKING:
    from tocsin.watch import Watch


def default_watch(
    path: Path | None,
    allowed: Collection[str] | None = None,
    webhooks: Collection[str] | None = None,
) -> str:
    """The watch file as JSON text; without a file the empty one, whose defaults apply.

    All that is wrong with the file, or with its custom rules, is found now and not when the first
    job trains: OptionError, a line for each. The files of ``custom_rules`` are run for that.
    Silences that are over are left out: they held for an earlier deployment.
    ``allowed`` are the recipients that the deployment tells and ``webhooks`` the endpoints it
    names; None: any.
    """
    if path is None:
        return "{}"
    from tocsin.watch import encode_watch

    watch, now = _checked(path, allowed, webhooks), datetime.now(UTC)
    silences = tuple(each for each in watch.silences if each.until > now)
    deployed = replace(watch, silences=silences, custom_rules=None)  # rules are in the layer
    return encode_watch(deployed).decode()


def custom_rules(path: Path | None) -> Path | None:
    """The folder of the watch file's ``custom_rules``, which begins at the file. OptionError."""
    if path is None or (folder := _checked(path).custom_rules) is None:
        return None
    return path.parent / folder


def _checked(
    path: Path,
    allowed: Collection[str] | None = None,
    webhooks: Collection[str] | None = None,
) -> Watch:
    from tocsin.actions import recipients
    from tocsin.rules import load_installed
    from tocsin.watch import lint

    load_installed()
    watch, problems = lint(path, recipients(allowed, webhooks))
    if watch is None or problems:
        raise OptionError("\n".join(f"option watchFile: {wrong.at(path)}" for wrong in problems))
    return watch
