"""One timeline of many."""

from __future__ import annotations

from tocsin.profile import MergedTimeline, MergeUnit

__all__ = ["MergeUnit", "MergedTimeline"]
