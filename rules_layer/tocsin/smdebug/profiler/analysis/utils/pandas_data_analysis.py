"""Statistics of the tables."""

from __future__ import annotations

from tocsin.profile import PandasFrameAnalysis, Resource, StatsBy

__all__ = ["PandasFrameAnalysis", "Resource", "StatsBy"]
