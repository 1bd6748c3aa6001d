"""The profiler's data of one job."""

from __future__ import annotations

import time
from collections.abc import Callable

from tocsin.profile import has_profiler_files
from tocsin.smdebug.profiler.algorithm_metrics_reader import AlgorithmMetricsReader
from tocsin.smdebug.profiler.system_metrics_reader import SystemMetricsReader
from tocsin.tensors import job_name, open_storage

__all__ = ["TrainingJob"]

_POLL = 10.0  # s
_PATIENCE = 3600.0  # s


class TrainingJob:
    """A folder ``profiler-output``, or ``s3://bucket/prefix``, with its readers.

    training_job_name: that place. smdebug takes the name of a job and asks SageMaker for it: that
        is ``ProfilerConfig.S3OutputPath`` of DescribeTrainingJob, the job's name and
        ``profiler-output``. Raises ValueError for a name alone.
    """

    def __init__(self, training_job_name: str, region: str | None = None) -> None:
        if "/" not in training_job_name:
            raise ValueError(
                f"{training_job_name}: name the place of the profiler's files, such as "
                f"s3://bucket/jobs/{training_job_name}/profiler-output"
            )
        self.profiler_s3_output_path = training_job_name
        self.name = job_name(training_job_name.removesuffix("/profiler-output"))
        self.system_metrics_reader: SystemMetricsReader | None = None
        self.framework_metrics_reader: AlgorithmMetricsReader | None = None

    def get_systems_metrics_reader(self) -> SystemMetricsReader | None:
        """Return the reader of system metrics, once they were waited for."""
        return self.system_metrics_reader

    def get_framework_metrics_reader(self) -> AlgorithmMetricsReader | None:
        """Return the reader of events, once they were waited for."""
        return self.framework_metrics_reader

    def wait_for_sys_profiling_data_to_be_available(self, timeout: float = _PATIENCE) -> None:
        """Return when there are system metrics. Raises TimeoutError."""
        reader = SystemMetricsReader(self.profiler_s3_output_path)
        self._wait(reader.get_timestamp_of_latest_available_file, timeout)
        self.system_metrics_reader = reader

    def wait_for_framework_profiling_data_to_be_available(self, timeout: float = _PATIENCE) -> None:
        """Return when there are events. Raises TimeoutError."""
        reader = AlgorithmMetricsReader(self.profiler_s3_output_path)
        self._wait(reader.get_timestamp_of_latest_available_file, timeout)
        self.framework_metrics_reader = reader

    def _wait(self, latest: Callable[[], int], timeout: float) -> None:
        until = time.monotonic() + timeout
        while not (has_profiler_files(open_storage(self.profiler_s3_output_path)) and latest()):
            if time.monotonic() >= until:
                raise TimeoutError(f"no such profiler data in {self.profiler_s3_output_path}")
            time.sleep(_POLL)
