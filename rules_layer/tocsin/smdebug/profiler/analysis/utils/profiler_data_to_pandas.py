"""Tables of the profiler's data."""

from __future__ import annotations

from tocsin.profile import PandasFrame

__all__ = ["PandasFrame"]
