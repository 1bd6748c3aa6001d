"""The base class of rules."""

from __future__ import annotations

from tocsin.smdebug.rules import Rule

__all__ = ["Rule"]
