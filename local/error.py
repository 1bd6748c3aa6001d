"""The one error of this room."""

from __future__ import annotations


class LocalError(RuntimeError):
    """When the embedded AWS cannot do what it should: one line that says what and why."""
