"""Opens a run."""

from __future__ import annotations

from tocsin.smdebug.trials import create_trial

__all__ = ["create_trial"]
