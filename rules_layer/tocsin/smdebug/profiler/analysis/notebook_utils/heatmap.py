"""A chart of the profiler's data, which has no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["Heatmap"]

Heatmap = absent("Heatmap", "see the map of utilization of `tocsin report`")
