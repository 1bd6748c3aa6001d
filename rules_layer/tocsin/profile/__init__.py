"""Minutes of machines, and the files of Amazon's profiler: read as samples, as events, and as the
minutes of a machine run.
"""

from tocsin.profile.content import BadProfile
from tocsin.profile.keys import node_of, split_profiler_key
from tocsin.profile.minute import Minute, entries
from tocsin.profile.reading import has_profiler_files, system_samples, trace_events
from tocsin.profile.run import ProfilerRun, named_as_run, open_run
from tocsin.profile.system import Sample
from tocsin.profile.trace import TraceEvent

__all__ = [
    "BadProfile",
    "Minute",
    "ProfilerRun",
    "Sample",
    "TraceEvent",
    "entries",
    "has_profiler_files",
    "named_as_run",
    "node_of",
    "open_run",
    "split_profiler_key",
    "system_samples",
    "trace_events",
]
