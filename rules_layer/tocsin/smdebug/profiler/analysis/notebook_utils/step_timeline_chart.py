"""A chart of the profiler's data, which has no counterpart."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["StepTimelineChart"]

StepTimelineChart = absent("StepTimelineChart", "see the time of steps in `tocsin report`")
