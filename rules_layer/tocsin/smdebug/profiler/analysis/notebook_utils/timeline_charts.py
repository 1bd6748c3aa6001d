"""A chart of the profiler's data, which has no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["TimelineCharts"]

TimelineCharts = absent(
    "TimelineCharts", "see `tocsin profile RUN --trace FILE`, in ui.perfetto.dev"
)
