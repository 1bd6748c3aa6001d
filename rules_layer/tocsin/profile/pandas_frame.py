"""The profiler's samples and events as tables of pandas, with smdebug's signatures and columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any

from tocsin.installing import install
from tocsin.profile.framework import TraceEvent
from tocsin.profile.keys import node_of
from tocsin.profile.minute_samples import samples_of_run, steps_of_run
from tocsin.profile.reading import system_files, system_samples, trace_events
from tocsin.profile.system import Sample
from tocsin.tensors import INDEX, Storage, index_objects, open_storage, parse_index_key

SYSTEM_COLUMNS = (
    "timestamp",
    "timestamp_us",
    "value",
    "system_metric",
    "dimension",
    "nodeID",
    "type",
)
FRAMEWORK_COLUMNS = (
    "start_time",
    "end_time",
    "start_time_us",
    "end_time_us",
    "tid",
    "pid",
    "framework_metric",
    "step",
    "bytes",
    "process",
    "nodeID",
)
LOADER_COLUMNS = (
    "start_time",
    "end_time",
    "start_time_us",
    "end_time_us",
    "duration_us",
    "pid",
    "framework_metric",
    "step",
    "worker_id",
    "num_workers",
    "pin_memory",
    "process",
    "node_id",
)
_FORMAT = "%Y-%m-%dT%H:%M:%S:%f"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_STEP = "Step"


def pandas() -> Any:
    """Raises ModuleNotFoundError, with the command that installs it, where it is missing."""
    try:
        return import_module("pandas")
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"tables of the profiler need pandas: {install('notebook')}", name=missing.name
        ) from None


class PandasFrame:
    """The tables of a folder ``profiler-output``, of Amazon's profiler or of a machine run.

    Times in µs count from the start of the first minute of system metrics, and those in text are
    UTC. Rows are in the order of the files; exact duplicates are dropped.

    Parameters
    ----------
    path: a folder or ``s3://bucket/prefix``.
    use_in_memory_cache, scan_interval: have no effect: each call reads each file once.

    Example
    -------
    >>> frame = PandasFrame("s3://bucket/jobs/j1/profiler-output")
    >>> system, framework = frame.get_all_system_metrics(), frame.get_all_framework_metrics()
    """

    def __init__(
        self, path: str, use_in_memory_cache: bool = False, scan_interval: int = 5_000_000_000
    ) -> None:
        pandas()
        self.path = path
        self._storage = open_storage(path)
        self._is_ours = next(self._storage.list(INDEX), None) is not None
        self.start_time = _first_minute(self._storage, is_ours=self._is_ours)
        self._system: list[tuple[Any, ...]] = []
        self._framework: list[tuple[Any, ...]] = []

    def get_all_system_metrics(self, selected_system_metrics: Sequence[str] = ()) -> Any:
        """Return the samples of all metrics, or of those with these names, as a DataFrame."""
        rows = self._system_rows(None, None, selected_system_metrics)
        return _table(rows, SYSTEM_COLUMNS)

    def get_all_framework_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events, or those whose name or phase is one of these, as a DataFrame."""
        rows = self._framework_rows(None, None, selected_framework_metrics)
        return _table(rows, FRAMEWORK_COLUMNS)

    def get_all_dataloader_metrics(self, selected_framework_metrics: Sequence[str] = ()) -> Any:
        """Return all events, or those whose name or phase matches one of these regular
        expressions."""
        patterns = [re.compile(each) for each in selected_framework_metrics]
        rows = (
            self._loader_row(event)
            for event in self._events(None, None)
            if not patterns
            or any(each.match(event.name) or each.match(event.phase) for each in patterns)
        )
        return _table(rows, LOADER_COLUMNS)

    def get_profiler_data_by_time(
        self,
        start_time_us: float,
        end_time_us: float,
        cache_metrics: bool = False,
        selected_framework_metrics: Sequence[str] = (),
        selected_system_metrics: Sequence[str] = (),
        get_framework_metrics: bool = True,
        get_system_metrics: bool = True,
    ) -> tuple[Any, Any]:
        """Return both tables of a time, in µs since the epoch. ``cache_metrics``: with what earlier
        calls returned.
        """
        between = start_time_us / 1e6, end_time_us / 1e6
        system, framework = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        if get_system_metrics:
            system = [*self._system_rows(*between, selected_system_metrics)]
        if get_framework_metrics:
            framework = [*self._framework_rows(*between, selected_framework_metrics)]
        if cache_metrics:
            self._system += system
            self._framework += framework
            system, framework = self._system, self._framework
        return _table(system, SYSTEM_COLUMNS), _table(framework, FRAMEWORK_COLUMNS)

    def get_profiler_data_by_step(
        self, start_step: int, end_step: int, cache_metrics: bool = False
    ) -> tuple[Any, Any]:
        """Return both tables of the time of these steps, the last one included."""
        system, framework = self.get_all_system_metrics(), self.get_all_framework_metrics()
        framework = framework[framework["step"].between(start_step, end_step)]
        begin, end = framework["start_time_us"].min(), framework["end_time_us"].max()
        return system[system["timestamp_us"].between(begin, end)], framework

    def get_framework_metrics_by_timesteps(
        self, timestep_list: Sequence[Any] = (), selected_framework_metrics: Sequence[str] = ()
    ) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """Return what happened at these times: µs by phase (as a share of the largest), by event,
        and by phase of training. An event counts once for each time within it.
        """
        times = sorted(self.convert_datetime_to_timestamp(each) for each in timestep_list)
        phases, names = dict[str, float](), dict[str, float]()
        if times:
            for event in self._chosen(times[0] / 1e6, times[-1] / 1e6, selected_framework_metrics):
                count = sum(event.start < time < event.end for time in times)
                if count:
                    _add(phases, event.phase, count * event.duration)
                    if _STEP not in event.name:
                        _add(names, event.name, count * event.duration)
        training = {phase: spent for phase, spent in phases.items() if _STEP in phase}
        others = {phase: spent for phase, spent in phases.items() if _STEP not in phase}
        return _shares(others), names, training

    def get_framework_metrics_by_begin_and_end_timesteps(
        self,
        begin_timestep_list: Sequence[Any],
        end_timestep_list: Sequence[Any],
        selected_framework_metrics: Sequence[str] = (),
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return what happened in these times: by phase and by event, as shares of the largest."""
        begins = [self.convert_datetime_to_timestamp(each) for each in begin_timestep_list]
        ends = [self.convert_datetime_to_timestamp(each) for each in end_timestep_list]
        phases, names = dict[str, float](), dict[str, float]()
        if begins and ends:
            within = list(zip(begins, ends, strict=False))
            between = min(begins) / 1e6, max(ends) / 1e6
            for event in self._chosen(*between, selected_framework_metrics):
                count = sum(event.end >= begin and event.start <= end for begin, end in within)
                if count and _STEP not in event.name:
                    _add(phases, event.phase, count * event.duration)
                    _add(names, event.name, count * event.duration)
        return _shares(phases), _shares(names)

    def convert_datetime_to_timestamp(self, timestamp: Any) -> int:
        """Return a time, as the tables have it in text or as a datetime in UTC, in µs since the
        epoch."""
        when = pandas().to_datetime(timestamp, format=_FORMAT, utc=True)
        return int(when.value // 1000)

    def _samples(self, start: float | None, end: float | None) -> Iterator[Sample]:
        read = samples_of_run if self._is_ours else system_samples
        return read(self._storage, start, end)

    def _events(self, start: float | None, end: float | None) -> Iterator[TraceEvent]:
        read = steps_of_run if self._is_ours else trace_events
        return read(self._storage, start, end)

    def _chosen(
        self, start: float | None, end: float | None, selected: Sequence[str]
    ) -> Iterator[TraceEvent]:
        for event in self._events(start, end):
            if not selected or event.name in selected or event.phase in selected:
                yield event

    def _system_rows(
        self, start: float | None, end: float | None, selected: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        for sample in self._samples(start, end):
            if selected and sample.name not in selected:
                continue
            time = round(sample.time * 1e6)
            yield (
                _text(time),
                time - self.start_time,
                sample.value,
                sample.name,
                sample.dimension,
                sample.node,
                sample.type,
            )

    def _framework_rows(
        self, start: float | None, end: float | None, selected: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        for event in self._chosen(start, end, selected):
            yield (
                *self._times(event),
                -1 if event.tid is None else event.tid,
                _process(event),
                _name(event),
                _step(event),
                event.args.get("bytes_fetched", -1),
                event.phase,
                _node(event),
            )

    def _loader_row(self, event: TraceEvent) -> tuple[Any, ...]:
        pinned = event.args.get("pin_memory")
        return (
            *self._times(event),
            event.duration,
            _process(event),
            _name(event),
            _step(event),
            event.args.get("worker_id", -1),
            event.args.get("num_workers", -1),
            "NA" if pinned is None else str(pinned),
            event.phase,
            _node(event),
        )

    def _times(self, event: TraceEvent) -> tuple[str, str, int, int]:
        begin, end = event.start - self.start_time, event.end - self.start_time
        return _text(event.start), _text(event.end), begin, end


def _first_minute(storage: Storage, *, is_ours: bool) -> int:
    """The start of the first minute of system metrics, in µs since the epoch; 0 without one."""
    if is_ours:
        found: Iterable[int] = (
            60 * place[0] for item in index_objects(storage) if (place := parse_index_key(item.key))
        )
    else:
        found = (each.place.start for each in system_files(storage))
    return min(found, default=0) * 1_000_000


def _table(rows: Iterable[tuple[Any, ...]], columns: Sequence[str]) -> Any:
    table = pandas().DataFrame([*rows], columns=[*columns])
    return table[~table.duplicated()]


def _text(microseconds: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=microseconds):{_FORMAT}}"


def _process(event: TraceEvent) -> Any:
    return event.args.get("pid", event.pid)


def _name(event: TraceEvent) -> str:
    return str(event.args.get("layer_name", event.args.get("name", event.name)))


def _step(event: TraceEvent) -> int:
    try:
        return int(event.args.get("step_num", -1))
    except (TypeError, ValueError):
        return -1


def _node(event: TraceEvent) -> str:
    """``algo-1-7`` for the worker ``7-algo-1``, so that it sorts with the node's system metrics."""
    node = node_of(event.worker)
    own = event.worker.removesuffix(f"-{node}")
    return node if own == event.worker else f"{node}-{own}"


def _add(sums: dict[str, float], name: str, more: float) -> None:
    sums[name] = sums.get(name, 0.0) + more


def _shares(sums: dict[str, float]) -> dict[str, float]:
    most = max(sums.values(), default=0.0)
    return {name: spent / most for name, spent in sums.items()} if most else sums
