"""A run, opened for reading."""

from __future__ import annotations

from tocsin.smdebug.trials import S3Trial

__all__ = ["S3Trial"]
