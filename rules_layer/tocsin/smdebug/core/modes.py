"""The modes of steps."""

from __future__ import annotations

from tocsin.model import Mode as ModeKeys

__all__ = ["ALLOWED_MODES", "ALLOWED_MODE_NAMES", "ModeKeys", "str_to_mode_keys"]

ALLOWED_MODES = list(ModeKeys)
ALLOWED_MODE_NAMES = [mode.name for mode in ModeKeys]


def str_to_mode_keys(mode_str: str) -> ModeKeys:
    """Return the mode of a name such as ``train``. Raises ValueError."""
    if mode_str.upper() not in ALLOWED_MODE_NAMES:
        raise ValueError(f"{mode_str!r} is not a mode: there are {', '.join(ALLOWED_MODE_NAMES)}")
    return ModeKeys[mode_str.upper()]
