"""Reads the events of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tocsin.profile import trace_events
from tocsin.smdebug.profiler.utils import TimeUnits
from tocsin.tensors import open_storage

__all__ = [
    "AlgorithmMetricsReader",
    "LocalAlgorithmMetricsReader",
    "S3AlgorithmMetricsReader",
    "TraceEvent",
]


@dataclass(frozen=True)
class TraceEvent:
    """Something that took a time. ``start_time``, ``end_time`` and ``duration`` are in ns."""

    event_name: str
    event_phase: str
    start_time: int
    end_time: int
    node_id: str
    pid: int | str | float | None
    tid: int | str | float | None
    event_args: dict[str, Any]

    @property
    def duration(self) -> int:
        return self.end_time - self.start_time


class AlgorithmMetricsReader:
    """Reads the timelines of a folder ``profiler-output``, here or in S3, at each call."""

    def __init__(self, path: str, use_in_memory_cache: bool = False) -> None:
        self._storage = open_storage(path)

    def refresh_event_file_list(self) -> None:
        """Do nothing: each call looks for new files."""

    def get_events(
        self, start_time: float, end_time: float, unit: TimeUnits = TimeUnits.MICROSECONDS
    ) -> list[TraceEvent]:
        """Return the events that touch the time from one up to another."""
        return self._events(unit.seconds(start_time), unit.seconds(end_time))

    def get_timestamp_of_first_available_file(self) -> int:
        """Return the end of the first event in µs since the epoch; 0 where there is none."""
        return min((each.end_time // 1000 for each in self._events(None, None)), default=0)

    def get_timestamp_of_latest_available_file(self) -> int:
        """Return the end of the last event in µs since the epoch; 0 where there is none."""
        return max((each.end_time // 1000 for each in self._events(None, None)), default=0)

    def _events(self, start: float | None, end: float | None) -> list[TraceEvent]:
        return [
            TraceEvent(
                each.name,
                each.phase,
                1000 * each.start,
                1000 * each.end,
                each.worker,
                each.pid,
                each.tid,
                each.args,
            )
            for each in trace_events(self._storage, start, end)
        ]


LocalAlgorithmMetricsReader = S3AlgorithmMetricsReader = AlgorithmMetricsReader
