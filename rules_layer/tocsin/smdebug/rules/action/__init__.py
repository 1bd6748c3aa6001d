"""Actions of rules, which the watch file names."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["Actions"]

Actions = absent("Actions", "name the actions of a rule in the watch file: docs/watch-file.md")
