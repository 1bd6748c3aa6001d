"""Profiler data of a job."""

from __future__ import annotations

from tocsin.smdebug.absent import absent

__all__ = ["ProfilerTrial"]

ProfilerTrial = absent(
    "ProfilerTrial",
    "rules about machines read minutes of a machine run, `tocsin check RUN`, and notebooks the "
    "tables of PandasFrame",
)
