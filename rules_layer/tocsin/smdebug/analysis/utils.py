"""Refreshing of trials, and values that a configuration carries as text."""

from __future__ import annotations

from typing import Any

from tocsin.trial import no_refresh, refresh

__all__ = ["no_refresh", "parse_bool", "parse_list_from_str", "refresh"]


def parse_bool(arg: Any, default: bool) -> Any:
    """Return whether a text, or a bool, says true; None is ``default``. Raises ValueError."""
    if arg is None:
        return default
    known = {"true": True, "false": False}
    if str(arg).lower() not in known:
        raise ValueError(f"{arg!r:.100} is neither true nor false")
    return known[str(arg).lower()]


def parse_list_from_str(arg: Any, delimiter: str = ",") -> list[str]:
    """Return the parts of a text; a list as it is; None and an empty text as no part."""
    if isinstance(arg, str):
        return arg.split(delimiter) if arg else []
    return list(arg or ())
