"""Collections of a hook for PyTorch."""

from __future__ import annotations

from tocsin.smdebug.core.collection import Collection

__all__ = ["Collection"]
