"""Minutes of machines, and the files of Amazon's profiler: read as samples, as events, and as the
minutes of a machine run.
"""

from importlib import import_module
from typing import Any

from tocsin.profile.amazon_files import write_amazon_files
from tocsin.profile.content import BadProfile
from tocsin.profile.framework import TraceEvent
from tocsin.profile.keys import node_of, split_profiler_key
from tocsin.profile.minute import Minute, entries
from tocsin.profile.reading import (
    has_profiler_files,
    system_samples,
    trace_events,
    unreadable_profile,
)
from tocsin.profile.reports import REPORTED, reports_of
from tocsin.profile.run import ProfilerRun, named_as_run, open_run
from tocsin.profile.system import Sample
from tocsin.profile.usage import (
    BUSY_CORE,
    WAITING_CORE,
    NodeUsage,
    box,
    statistics,
    usage_of,
)

__all__ = [
    "BUSY_CORE",
    "REPORTED",
    "WAITING_CORE",
    "BadProfile",
    "MergeUnit",
    "MergedTimeline",
    "Minute",
    "NodeUsage",
    "PandasFrame",
    "PandasFrameAnalysis",
    "ProfilerRun",
    "Resource",
    "Sample",
    "StatsBy",
    "TraceEvent",
    "box",
    "entries",
    "has_profiler_files",
    "named_as_run",
    "node_of",
    "open_run",
    "reports_of",
    "split_profiler_key",
    "statistics",
    "system_samples",
    "trace_events",
    "unreadable_profile",
    "usage_of",
    "write_amazon_files",
]

_FOR_NOTEBOOKS = {
    "MergeUnit": "merged_timeline",
    "MergedTimeline": "merged_timeline",
    "PandasFrame": "pandas_frame",
    "PandasFrameAnalysis": "pandas_analysis",
    "Resource": "pandas_analysis",
    "StatsBy": "pandas_analysis",
}


def __getattr__(name: str) -> Any:
    """Load names for notebooks on first access; a training process does not need them."""
    if name not in _FOR_NOTEBOOKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tocsin.profile.{_FOR_NOTEBOOKS[name]}"), name)
