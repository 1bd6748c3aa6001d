"""Minutes of a machine run as samples and events of Amazon's profiler, as far as they are kept.

Where a minute has a summary of a metric and no samples, its mean stands at its start. Where the
steps of a minute were, within it, is not kept: they stand one after another, as far apart as the
rest of the minute leaves them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tocsin.model import Mode
from tocsin.profile.framework import TraceEvent
from tocsin.profile.system import Sample
from tocsin.tensors import (
    BadIndex,
    Entry,
    IndexFile,
    Storage,
    index_objects,
    inline_value,
    read_index,
)

_GPU = re.compile(r"(gpu\d+)/(GPUUtilization|GPUMemoryUtilization)")
_CORES = {"cpu/CPUUtilization": "CPUUtilization", "cpu/I/OWaitPercentage": "I/OWaitPercentage"}
_STEPS = (Mode.TRAIN.name, Mode.EVAL.name)
_MOST_STEPS = 500  # of a minute


def minutes_of(storage: Storage) -> Iterator[IndexFile]:
    """Yield the minutes of a machine run, in order; those that cannot be read are left out."""
    for found in index_objects(storage):
        with suppress(BadIndex):  # `tocsin check` says which and why
            yield read_index(storage, found)


def samples_of_run(
    storage: Storage, start: float | None = None, end: float | None = None
) -> Iterator[Sample]:
    """Yield the samples from ``start`` until before ``end``, in seconds since the epoch."""
    for minute in minutes_of(storage):
        for sample in samples_of(minute):
            if (start is None or sample.time >= start) and (end is None or sample.time < end):
                yield sample


def steps_of_run(
    storage: Storage, start: float | None = None, end: float | None = None
) -> Iterator[TraceEvent]:
    """Yield the steps that touch the time from ``start`` until ``end``, in seconds since the epoch.

    They are numbered by mode, from the first one that is kept on.
    """
    counts = Counter[tuple[str, str]]()
    for minute in minutes_of(storage):
        for event in steps_of(minute, counts):
            if (start is None or event.end >= start * 1e6) and (
                end is None or event.start < end * 1e6
            ):
                yield event


def samples_of(minute: IndexFile) -> list[Sample]:
    """Return the samples of a minute, in the order of their times. The mean over cores is
    ``cpu0``."""
    begin, seconds = 60 * minute.step, _seconds(minute)
    samples = []
    for entry in minute.entries:
        if (named := _named(entry.name)) is None:
            continue
        kind, name, dimension = named
        values = _values(entry)
        for at, value in enumerate(values):
            if math.isfinite(value):
                time = begin + at * seconds / len(values)
                value = round(value, 2)
                samples.append(Sample(kind, value, time, dimension, minute.worker, name))
    return sorted(samples, key=lambda each: each.time)


def steps_of(minute: IndexFile, counts: Counter[tuple[str, str]]) -> Iterator[TraceEvent]:
    """Yield the steps of a minute, numbered from ``counts`` on, by worker and mode."""
    found = [(mode, each) for mode in _STEPS for each in _durations(minute.entry(f"step/{mode}"))]
    begin = 60_000_000 * minute.step
    left = max(0.0, _seconds(minute) - sum(duration for _, duration in found))
    gap, at = left / max(1, len(found)), 0.0
    for mode, duration in found:
        number = counts[minute.worker, mode]
        counts[minute.worker, mode] += 1
        name = f"Step:ModeKeys.{mode}"
        start, end = begin + round(at * 1e6), begin + round((at + duration) * 1e6)
        args = {"pid": 0, "step_num": str(number)}
        worker = f"0-{minute.worker}"
        yield TraceEvent(name, name, start, end, worker, "pythontimeline", 0, None, args)
        at += duration + gap


def _named(series: str) -> tuple[str, str, str] | None:
    """Type, name and dimension of a series; None for what Amazon's agent does not measure."""
    if series in _CORES:
        return "cpu", "cpu0", _CORES[series]
    if match := _GPU.fullmatch(series):
        return "gpu", match[1], match[2]
    kind, _, name = series.rpartition("/")
    if series == "memory/MemoryUsedPercent" or kind == "i/o":
        return kind, name, ""
    return ("network", name, "Algorithm") if kind == "network" else None


def _values(entry: Entry) -> Sequence[float]:
    inline = inline_value(entry)
    if inline is not None:
        return [float(value) for value in inline.reshape(-1)]
    mean = entry.summary.mean if entry.summary is not None else None
    return [] if mean is None else [mean]


def _durations(entry: Entry | None) -> Sequence[float]:
    """Seconds of the steps of a minute: those that are kept, else the mean for each."""
    if entry is None:
        return []
    if inline_value(entry) is not None:
        return [value for value in _values(entry) if math.isfinite(value) and value >= 0]
    summary = entry.summary
    if summary is None or not summary.size or summary.mean is None:
        return []
    return [summary.mean] * min(summary.size, _MOST_STEPS)


def _seconds(minute: IndexFile) -> float:
    entry = minute.entry("machine/minute")
    known = entry.summary.max if entry is not None and entry.summary is not None else None
    return min(known, 60.0) if known and known > 0 else 60.0
