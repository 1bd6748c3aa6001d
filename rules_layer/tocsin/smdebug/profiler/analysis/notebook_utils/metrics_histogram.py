"""A chart of the profiler's data, which has no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["MetricsHistogram"]

MetricsHistogram = absent("MetricsHistogram", "see the table of statistics of `tocsin report`")
