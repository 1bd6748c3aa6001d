"""Names of the profiler that notebooks use."""

from __future__ import annotations

from tocsin.smdebug.profiler.analysis.notebook_utils.metrics_histogram import MetricsHistogram
from tocsin.smdebug.profiler.analysis.notebook_utils.step_histogram import StepHistogram
from tocsin.smdebug.profiler.analysis.notebook_utils.training_job import TrainingJob

__all__ = ["MetricsHistogram", "StepHistogram", "TrainingJob"]
