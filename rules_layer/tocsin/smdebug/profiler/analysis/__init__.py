"""Notebooks on the profiler's data."""
