"""A minute of a node from the samples and events of Amazon's profiler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.profile.framework import TraceEvent
from tocsin.profile.keys import worker_order
from tocsin.profile.minute import KINDS, Minute
from tocsin.profile.system import Sample

_STEP = "Step:ModeKeys."
_MODES = {
    "TRAIN": Mode.TRAIN.name,
    "GLOBAL": Mode.TRAIN.name,  # of a loop that does not name its modes
    "EVAL": Mode.EVAL.name,
    "PREDICT": Mode.PREDICT.name,
}
_FORWARD, _LOADER, _TF_DATA = "Forward", "DataLoader", "DataIterator"
_INITIALIZE = "Initialize"
_NEXT = "IteratorGetNextOp"  # what is inside of it are datasets, which work ahead
_INTERVALS = (0.1, 0.2, 0.5, 1.0, 5.0, 60.0)  # seconds, that a job can be sampled at
_MOST_TICKS = 1200
_MOST_DEVICES = 1024
_OF_DEVICES = {
    "cpu": (re.compile(r"cpu\d{1,4}"), ("CPUUtilization", "I/OWaitPercentage")),
    "gpu": (re.compile(r"gpu\d{1,3}"), ("GPUUtilization", "GPUMemoryUtilization")),
}


class Timed(NamedTuple):
    """An event that a minute counts: what (``TRAIN``, ``wait``, ``forward``, ``loader``), when in
    µs since the epoch, and whose.
    """

    what: str
    start: int
    end: int
    worker: str
    pid: str


def timed(events: Iterable[TraceEvent]) -> list[Timed]:
    """Return the events that minutes are made of: steps, forward passes, waits for data,
    loaders."""
    found = []
    for event in events:
        for what in _counts_as(event):
            pid = str(event.args.get("pid", event.pid))[:40]
            found.append(Timed(what, event.start, event.end, event.worker, pid))
    return found


def minute_of(minute: int, samples: Sequence[Sample], events: Sequence[Timed] | None) -> Minute:
    """Return the minute of this number.

    ``events``: those of the node, of this minute and others. None: nothing is known of its steps.
    """
    series, seconds, missed = _series(samples)
    durations = {} if events is None else _durations(minute, events)
    if events:
        if workers := _loader_workers(minute, events):
            series["loader/workers"] = workers
        if not samples:
            seconds = 60.0
    return Minute(seconds, series, durations, missed)


def _counts_as(event: TraceEvent) -> Iterable[str]:
    if event.phase.startswith(_STEP) or event.name.startswith(_STEP):
        name = event.phase if event.phase.startswith(_STEP) else event.name
        if mode := _MODES.get(name.removeprefix(_STEP)):
            yield mode
    elif event.phase == _FORWARD:
        yield "forward"
    elif event.phase.startswith(_LOADER):
        yield "loader"
        if "Iter" in event.phase and _INITIALIZE not in event.phase:
            yield "wait"
    elif event.phase == _TF_DATA and _NEXT in event.name:
        yield "wait"


def _durations(minute: int, events: Sequence[Timed]) -> dict[str, list[float]]:
    """Seconds of what ended in the minute, of the node's first worker that did a step in it."""
    begin, end = minute * 60_000_000, (minute + 1) * 60_000_000
    own = [each for each in events if begin <= each.end < end]
    stepped = {each.worker for each in own if each.what in _MODES.values()}
    first = min(stepped or {each.worker for each in own}, key=worker_order, default="")
    durations: dict[str, list[float]] = {Mode.TRAIN.name: []}
    for each in sorted(own, key=lambda each: each.end):
        if each.worker == first and each.what != "loader":
            durations.setdefault(each.what, []).append((each.end - each.start) / 1e6)
    return durations


def _loader_workers(minute: int, events: Sequence[Timed]) -> list[float]:
    """For each second in which a loader began something, how many processes did."""
    seconds: dict[int, set[str]] = {}
    for each in events:
        second = each.start // 1_000_000
        if each.what == "loader" and second // 60 == minute:
            seconds.setdefault(second, set()).add(f"{each.worker}/{each.pid}")
    return [float(len(found)) for _, found in sorted(seconds.items())]


def _series(samples: Sequence[Sample]) -> tuple[dict[str, list[float]], float, int]:
    """The series at their ticks, how many seconds they cover, and how many ticks were missed."""
    times = np.array([sample.time for sample in samples])
    if not times.size:
        return {}, 0.0, 0
    interval = _interval(samples)
    ticks = _ticks(times, interval)
    count = int(ticks.max()) + 1
    groups: dict[tuple[str, str], dict[str, NDArray[np.float64]]] = {}
    for sample, tick in zip(samples, ticks, strict=True):
        if tick < 0 or (name := _series_name(sample)) is None:
            continue
        devices = groups.setdefault((sample.type, name), {})
        device = sample.name or ""
        if device not in devices and len(devices) < _MOST_DEVICES:
            devices[device] = np.full(count, np.nan)
        if device in devices:
            devices[device][tick] = sample.value
    seconds = min(60.0, float(times.max() - times.min()) + interval)
    missed = max(0, round(seconds / interval) - count)
    return _named(groups), seconds, missed


def _ticks(times: NDArray[np.float64], interval: float) -> NDArray[np.int64]:
    """The tick of each sample: it begins with a sample more than half an interval after the first
    of the tick before. -1 from the 1,200th on.
    """
    ticks = np.empty(times.size, np.int64)
    tick, began = -1, -np.inf
    for at in np.argsort(times, kind="stable"):
        if times[at] - began > interval / 2:
            tick, began = tick + 1, times[at]
        ticks[at] = tick if tick < _MOST_TICKS else -1
    return ticks


def _interval(samples: Sequence[Sample]) -> float:
    """The interval of the job, from the times of the series that has most."""
    series: dict[tuple[str, str, str], list[float]] = {}
    for sample in samples:
        of = sample.type, sample.name or "", sample.dimension
        series.setdefault(of, []).append(sample.time)
    longest = max(series.values(), key=len)
    if len(longest) < 2:
        return _INTERVALS[-1]
    apart = float(np.median(np.diff(np.sort(longest))))
    return min(_INTERVALS, key=lambda each: abs(np.log(max(apart, 1e-3) / each)))


def _series_name(sample: Sample) -> str | None:
    """The series that a sample goes into: a metric of one of several devices, or of the node."""
    if sample.type == "network" and sample.dimension != "Algorithm":
        return None  # of the instance: its downloads, its logs
    if sample.type in _OF_DEVICES:
        names, metrics = _OF_DEVICES[sample.type]
        is_known = sample.dimension in metrics and names.fullmatch(sample.name or "")
        return sample.dimension if is_known else None
    name = f"{sample.type}/{sample.name}"
    return name if name in KINDS else None


def _named(
    groups: Mapping[tuple[str, str], Mapping[str, NDArray[np.float64]]],
) -> dict[str, list[float]]:
    series: dict[str, NDArray[np.float64]] = {}
    for (kind, name), devices in groups.items():
        if kind == "cpu":
            cores = np.stack(list(devices.values()))
            if name == "CPUUtilization":
                series["cpu/CPUUtilization"] = _mean(cores)
                series["cpu/busiest"] = np.fmax.reduce(cores)
                series["cpu/cores"] = np.array([float(len(devices))])
            else:
                series["cpu/I/OWaitPercentage"] = np.fmax.reduce(cores)
        elif kind == "gpu":
            for device in sorted(devices, key=lambda each: (len(each), each)):
                series[f"{device}/{name}"] = devices[device]
        else:
            series[name] = next(iter(devices.values()))
    return {name: found.tolist() for name, found in series.items()}


def _mean(cores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over cores at each tick, of those that are known; NaN where none is."""
    known = np.isfinite(cores)
    count = known.sum(axis=0)
    total = np.where(known, cores, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
