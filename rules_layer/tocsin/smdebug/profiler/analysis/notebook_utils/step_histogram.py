"""A chart of the profiler's data, which has no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["StepHistogram"]

StepHistogram = absent("StepHistogram", "see the histogram of steps of `tocsin report`")
