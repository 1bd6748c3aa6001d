"""The one error of this room."""

from __future__ import annotations


class LocalError(RuntimeError):
    """The embedded AWS cannot do something: one line that says what and why."""
