"""One timeline of all that Amazon's profiler recorded in a time, for a viewer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from tocsin.profile.framework import TraceEvent
from tocsin.profile.reading import system_samples, trace_events
from tocsin.profile.system import Sample
from tocsin.tensors import open_storage

_FIRST_PIDS = {  # of the phases whose names contain it: viewers show processes in this order
    "Step:": 1,
    "Forward": 10_000,
    "Backward": 20_000,
    "DataIterator": 30_000,
    "Dataset": 40_000,
    "/device": 50_000,
    "/host": 60_000,
    "gpu_functions": 70_000,
    "cpu_functions": 80_000,
    "Horovod": 90_000,
}
_OTHERS = 1_000_000
_COUNTERS = 2_000_000
_BOTTLENECKS = "sys_metrics_bottlenecks"
_LOW_GPU = 85.0  # %

Row = dict[str, Any]


class MergeUnit(Enum):
    """The unit of ``merge_timeline``'s arguments: times in µs since the epoch, or steps."""

    TIME = "time"
    STEP = "step"


class MergedTimeline:
    """Writes one Chrome trace of the events and samples in a folder ``profiler-output``.

    Parameters
    ----------
    path: a folder or ``s3://bucket/prefix``.
    file_suffix_filter: ends of the names of the timelines that are merged, such as
        ``pythontimeline.json``; default: all.
    output_directory: where the file is written; default: ``path``.
    """

    def __init__(
        self,
        path: str,
        file_suffix_filter: Sequence[str] | None = None,
        output_directory: str | None = None,
    ) -> None:
        self.path = path
        self.out_dir = path if output_directory is None else output_directory
        self.file_suffix_filter = file_suffix_filter

    def merge_timeline(
        self,
        start: float,
        end: float,
        unit: MergeUnit = MergeUnit.TIME,
        sys_metrics_filter: Mapping[str, Any] | None = None,
    ) -> str:
        """Merge the events from ``start`` to ``end``, and return the path of the file.

        sys_metrics_filter: ``{"lowgpu": ()}`` marks the times at which a GPU's utilization is below
            85 %, ``{"lowgpu": (80,)}`` below 80; ``{}`` none. Default: the first.
        """
        storage = open_storage(self.path)
        if MergeUnit(unit) is MergeUnit.STEP:
            start, end = self._times_of(start, end)
        between = start / 1e6, end / 1e6
        events = [each for each in trace_events(storage, *between) if self._is_chosen(each)]
        samples = [*system_samples(storage, *between)]
        asked = {"lowgpu": ()} if sys_metrics_filter is None else sys_metrics_filter
        limits = asked.get("lowgpu")
        limit = None if limits is None else float(limits[0]) if limits else _LOW_GPU
        rows = [*merged(events, samples, limit)]
        name = f"{round(end)}_merged_timeline.json"
        text = ",\n".join(json.dumps(row) for row in rows)
        open_storage(self.out_dir).write(name, f"[\n{text}\n]".encode())
        return f"{self.out_dir.rstrip('/')}/{name}"

    def _is_chosen(self, event: TraceEvent) -> bool:
        if self.file_suffix_filter is None:
            return True
        return any(event.kind in suffix for suffix in self.file_suffix_filter)

    def _times_of(self, first: float, last: float) -> tuple[float, float]:
        """The time of these steps in µs, the last one excluded. Raises ValueError without any."""
        found = [
            event
            for event in trace_events(open_storage(self.path))
            if event.phase.startswith("Step:")
            and first <= int(event.args.get("step_num", -1)) < max(last, first + 1)
        ]
        if not found:
            raise ValueError(f"no step from {first} until before {last} in {self.path}")
        return min(each.start for each in found), max(each.end for each in found) + 1


def merged(
    events: Sequence[TraceEvent], samples: Sequence[Sample], limit: float | None
) -> Iterator[Row]:
    """Yield the rows of a Chrome trace; times count from the first, in µs.

    A process for each phase and each metric of each device and node. limit: of a GPU's utilization
    in %, below which a time is marked; None marks none.
    """
    times = [each.start for each in events] + [round(each.time * 1e6) for each in samples]
    first = min(times, default=0)
    yield _named("process_name", 0, {"name": "", "start_time_since_epoch_in_micros": first})
    pids, taken, tids = dict[str, int](), Counter[str](), dict[tuple[int, str], int]()
    for event in sorted(events, key=lambda each: (each.start, -each.end)):
        if (pid := pids.get(event.phase)) is None:
            pid = pids[event.phase] = _pid(event.phase, taken)
            yield from _process(pid, event.phase)
        lane = f"{event.worker} {event.tid if event.tid is not None else ''}".strip()
        if (tid := tids.get((pid, lane))) is None:
            tid = tids[pid, lane] = len(tids) + 1
            yield {**_named("thread_name", pid, {"name": lane}), "tid": tid}
        place = {"ts": event.start - first, "dur": event.duration, "pid": pid, "tid": tid}
        yield {"name": event.name, "ph": "X", **place, "args": event.args}
    yield from _counters(samples, first, limit)


def _counters(samples: Sequence[Sample], first: int, limit: float | None) -> Iterator[Row]:
    pids = dict[str, int]()
    marked = _COUNTERS - 1
    if limit is not None:
        yield from _process(marked, _BOTTLENECKS)
    for sample in sorted(samples, key=lambda each: each.time):
        name = f"{sample.name}_{sample.dimension}_{sample.node}"
        if (pid := pids.get(name)) is None:
            pid = pids[name] = _COUNTERS + len(pids)
            yield from _process(pid, name)
        at = round(sample.time * 1e6) - first
        place = {"ts": at, "pid": pid, "tid": 0}
        yield {"name": name, "ph": "C", **place, "args": {sample.dimension or name: sample.value}}
        is_low = limit is not None and sample.value < limit
        if is_low and sample.dimension == "GPUUtilization":
            label = f"Low {sample.name} of {sample.node}"
            place = {"ts": at, "pid": marked, "tid": 0}
            yield {"name": label, "ph": "i", "s": "g", **place, "args": {"value": sample.value}}


def _pid(phase: str, taken: Counter[str]) -> int:
    kind = next((part for part in _FIRST_PIDS if part in phase), "")
    pid = _FIRST_PIDS.get(kind, _OTHERS) + taken[kind]
    taken[kind] += 1
    return pid


def _process(pid: int, name: str) -> Iterator[Row]:
    yield _named("process_name", pid, {"name": name})
    yield _named("process_sort_index", pid, {"sort_index": pid})


def _named(what: str, pid: int, args: Row) -> Row:
    return {"name": what, "ph": "M", "pid": pid, "tid": 0, "args": args}
