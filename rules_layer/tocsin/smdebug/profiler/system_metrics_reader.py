"""Reads the samples of machines."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.profile import system_samples
from tocsin.smdebug.profiler.utils import TimeUnits
from tocsin.tensors import open_storage

__all__ = [
    "LocalSystemMetricsReader",
    "ProfilerSystemEvent",
    "S3SystemMetricsReader",
    "SystemMetricsReader",
]


@dataclass(frozen=True)
class ProfilerSystemEvent:
    """One metric at one time, in seconds since the epoch."""

    type: str
    name: str
    dimension: str
    value: float
    node_id: str
    timestamp: float


class SystemMetricsReader:
    """Reads the system metrics of a folder ``profiler-output``, here or in S3, at each call."""

    def __init__(self, path: str, use_in_memory_cache: bool = False) -> None:
        self._storage = open_storage(path)

    def refresh_event_file_list(self) -> None:
        """Do nothing: each call looks for new files."""

    def get_events(
        self, start_time: float, end_time: float, unit: TimeUnits = TimeUnits.MICROSECONDS
    ) -> list[ProfilerSystemEvent]:
        """Return the samples from a time up to another."""
        return self._events(unit.seconds(start_time), unit.seconds(end_time))

    def get_timestamp_of_first_available_file(self) -> int:
        """Return the time of the first sample in µs since the epoch; 0 where there is none."""
        return min((_micros(each) for each in self._events(None, None)), default=0)

    def get_timestamp_of_latest_available_file(self) -> int:
        """Return the time of the last sample in µs since the epoch; 0 where there is none."""
        return max((_micros(each) for each in self._events(None, None)), default=0)

    def _events(self, start: float | None, end: float | None) -> list[ProfilerSystemEvent]:
        return [
            ProfilerSystemEvent(
                each.type, each.name or "", each.dimension, each.value, each.node, each.time
            )
            for each in system_samples(self._storage, start, end)
        ]


def _micros(event: ProfilerSystemEvent) -> int:
    return round(event.timestamp * 1e6)


LocalSystemMetricsReader = S3SystemMetricsReader = SystemMetricsReader
