"""A run, opened for reading."""

from __future__ import annotations

from tocsin.smdebug.trials import LocalTrial

__all__ = ["LocalTrial"]
