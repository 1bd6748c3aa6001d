"""Collections of a hook for MXNet."""

from __future__ import annotations

from tocsin.smdebug.core.collection import Collection

__all__ = ["Collection"]
