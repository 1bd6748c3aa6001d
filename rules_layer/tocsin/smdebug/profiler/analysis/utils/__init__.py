"""Tables and timelines of the profiler's data."""
