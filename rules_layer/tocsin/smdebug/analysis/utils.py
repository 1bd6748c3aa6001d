"""Whether trials look for new steps."""

from __future__ import annotations

from tocsin.trial import no_refresh, refresh

__all__ = ["no_refresh", "refresh"]
