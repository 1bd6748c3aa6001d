"""Collections of a hook for XGBoost."""

from __future__ import annotations

from tocsin.smdebug.core.collection import Collection

__all__ = ["Collection"]
