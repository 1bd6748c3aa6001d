"""Runs a rule over a trial."""

from __future__ import annotations

from tocsin.smdebug.rules import invoke_rule

__all__ = ["invoke_rule"]
