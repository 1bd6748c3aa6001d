"""The distribution of each metric of a machine run, over all machines and devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tocsin.report.machine_parts import Statistic
from tocsin.report.thin import Array, digit
from tocsin.tensors import IndexFile, inline_value

_MB, _GB = 1e-6, 1e-9
_METRICS = {
    "other_step": ("evaluation step", "s", 1.0),
    "wait": ("wait for a batch", "s", 1.0),
    "between": ("between two steps", "s", 1.0),
    "forward": ("forward pass", "s", 1.0),
    "gpu_utilization": ("GPU utilization", "%", 1.0),
    "gpu_sm_active": ("GPU multiprocessors active", "%", 1.0),
    "gpu_memory": ("GPU memory in use", "%", 1.0),
    "gpu_memory_activity": ("GPU memory read or written", "%", 1.0),
    "gpu_power": ("GPU power", "W", 1.0),
    "gpu_temperature": ("GPU temperature", "°C", 1.0),
    "gpu_slowdown": ("GPU slowed down", "%", 100.0),
    "cpu": ("CPU, all cores", "%", 1.0),
    "cpu_busiest": ("CPU, busiest core", "%", 1.0),
    "cpu_wait": ("CPU, waiting for disks", "%", 1.0),
    "cpu_steal": ("CPU, taken by the hypervisor", "%", 1.0),
    "process_runqueue": ("training ready, without a core", "%", 1.0),
    "process_cpu": ("CPU of the training", "% of a core", 1.0),
    "cgroup_cpu": ("CPU of the container's limit", "%", 1.0),
    "cgroup_throttled": ("container throttled", "%", 100.0),
    "memory": ("memory in use", "%", 1.0),
    "process_memory": ("memory of the training", "GB", _GB),
    "disk_read": ("disks, read", "MB/s", _MB),
    "disk_write": ("disks, written", "MB/s", _MB),
    "network_receive": ("network, received", "MB/s", _MB),
    "network_transmit": ("network, sent", "MB/s", _MB),
}
"""Title, unit and factor by kind, in the order of the table."""


@dataclass
class _Seen:
    """The values of a metric: its samples, else the mean of each minute, and the greatest."""

    values: list[Array] = field(default_factory=list)
    sampled: bool = True
    most: float = -np.inf


def statistics_of(
    minutes: Sequence[IndexFile], durations: Array, weights: Array
) -> list[Statistic]:
    """Return the rows of the table. ``durations`` are seconds of steps, ``weights`` how many each
    is."""
    seen: dict[str, _Seen] = {}
    for minute in minutes:
        for entry in minute.entries:
            kind, summary = entry.kind or "", entry.summary
            if kind not in _METRICS or summary is None or summary.mean is None:
                continue
            own = seen.setdefault(kind, _Seen())
            samples = inline_value(entry)
            if samples is None:
                own.sampled = False
                own.values.append(np.array([summary.mean], np.float64))
            else:
                flat = samples.reshape(-1).astype(np.float64)
                own.values.append(flat[np.isfinite(flat)])
            own.most = max(own.most, summary.mean if summary.max is None else summary.max)
    return [*_steps(durations, weights), *_rows(seen)]


def _steps(durations: Array, weights: Array) -> Iterator[Statistic]:
    if durations.size:
        yield _statistic("training step", "s", "steps", durations, weights, durations.max())


def _rows(seen: dict[str, _Seen]) -> Iterator[Statistic]:
    for kind, (name, unit, factor) in _METRICS.items():
        if kind not in seen:
            continue
        own = seen[kind]
        values = factor * np.concatenate(own.values)
        if values.size:
            of = "samples" if own.sampled else "minutes"
            yield _statistic(name, unit, of, values, np.ones(values.size), factor * own.most)


def _statistic(
    name: str, unit: str, of: str, values: Array, weights: Array, most: float
) -> Statistic:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.array((0.5, 0.95, 0.99)) * reached[-1])
    half, p95, p99 = (digit(float(each)) for each in values[order][places])
    mean = digit(float(np.average(values, weights=weights)))
    return Statistic(name, unit, of, mean, half, p95, p99, digit(float(most)))
