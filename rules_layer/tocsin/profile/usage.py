"""The samples of each node over the minutes of a machine run, and their distributions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.model import Mode
from tocsin.tensors import IndexFile, inline_value

Numbers = NDArray[np.float64]

LOW_GPU, BUSY_CORE, WAITING_CORE = 10.0, 90.0, 50.0
"""In %: the thresholds of Amazon's rules CPUBottleneck and IOBottleneck."""

_GPU = re.compile(r"gpu\d+")
_NAMES = {
    "GPUUtilization": "",
    "GPUMemoryUtilization": "_memory",
    "cpu/CPUUtilization": "cpu",
    "cpu/busiest": "busiest",
    "cpu/I/OWaitPercentage": "wait",
}
_NETWORK = ("network/ReceiveBytesPerSecond", "network/TransmitBytesPerSecond")
_MEMORY = "memory/MemoryUsedPercent"
_MODES = (Mode.TRAIN.name, Mode.EVAL.name, Mode.PREDICT.name)


@dataclass(frozen=True)
class NodeUsage:
    """A node over its minutes.

    times: seconds since the epoch of each sample.
    series: samples by name, as many as ``times``, NaN where one is missing: ``gpu0``,
        ``gpu0_memory`` (memory read or written), ``cpu`` (mean of the cores), ``busiest`` and
        ``wait`` (the core that is busiest, that waits most for disks); in %.
    means: of each minute, by name: ``memory`` in %, ``network`` in bytes a second.
    steps: seconds of steps by mode, as far as they are kept.
    spent: seconds of all steps by mode; and of ``forward`` and ``wait``.
    length: seconds that were measured.
    loop: when the first minute began in which a training step ended, and when the last one ended,
        in seconds since the epoch; None without a step.
    """

    times: Numbers
    series: Mapping[str, Numbers]
    means: Mapping[str, Numbers]
    steps: Mapping[str, Numbers]
    spent: Mapping[str, float]
    length: float
    loop: tuple[float, float] | None

    @property
    def gpus(self) -> list[str]:
        """The names of the GPUs, by their numbers."""
        found = [name for name in self.series if _GPU.fullmatch(name)]
        return sorted(found, key=lambda name: int(name[3:]))

    @property
    def idle(self) -> NDArray[np.bool_]:
        """For each sample whether all GPUs were low. Needs a GPU."""
        busiest = np.stack([self.series[gpu] for gpu in self.gpus]).max(axis=0)
        low: NDArray[np.bool_] = busiest < LOW_GPU  # false where a sample is missing
        return low

    def over_gpus(self, suffix: str = "") -> Numbers:
        """Return the mean of ``gpu0`` + suffix, ``gpu1`` + suffix … for each sample; empty without
        any."""
        known = [self.series[name] for gpu in self.gpus if (name := gpu + suffix) in self.series]
        return np.stack(known).mean(axis=0) if known else np.empty(0)

    def core_above(self, core: str, threshold: float) -> NDArray[np.bool_]:
        """For each sample whether ``busiest`` or ``wait`` is above a threshold."""
        missing = np.full(self.times.size, np.nan)
        above: NDArray[np.bool_] = self.series.get(core, missing) > threshold
        return above


def usage_of(minutes: Sequence[IndexFile]) -> dict[str, NodeUsage]:
    """Return the usage of each node, by its name."""
    nodes: dict[str, list[IndexFile]] = {}
    for minute in sorted(minutes, key=lambda each: each.step):
        nodes.setdefault(minute.worker, []).append(minute)
    return {name: _usage(nodes[name]) for name in sorted(nodes)}


def box(values: Numbers) -> dict[str, float]:
    """Quartiles, the 95th percentile and Tukey's whiskers; {} without a number."""
    known = values[np.isfinite(values)]
    if not known.size:
        return {}
    p25, p50, p75, p95 = (float(each) for each in np.quantile(known, (0.25, 0.5, 0.75, 0.95)))
    reach = 1.5 * (p75 - p25)
    return {
        "p25": p25,
        "p50": p50,
        "p75": p75,
        "p95": p95,
        "upper": min(p75 + reach, float(known.max())),
        "lower": max(p25 - reach, float(known.min())),
    }


def statistics(values: Numbers) -> dict[str, float]:
    """Maximum, percentiles and minimum; {} without a number."""
    known = values[np.isfinite(values)]
    if not known.size:
        return {}
    p99, p95, p50 = (float(each) for each in np.quantile(known, (0.99, 0.95, 0.5)))
    return {
        "max": float(known.max()),
        "p99": p99,
        "p95": p95,
        "p50": p50,
        "min": float(known.min()),
    }


def _usage(minutes: Sequence[IndexFile]) -> NodeUsage:
    lengths = [_seconds(minute) for minute in minutes]
    samples = [_samples(minute) for minute in minutes]
    names = sorted({name for found in samples for name in found})
    counts = [max((each.size for each in found.values()), default=0) for found in samples]
    times = [
        60.0 * minute.step + np.arange(count) * length / max(count, 1)
        for minute, count, length in zip(minutes, counts, lengths, strict=True)
    ]
    return NodeUsage(
        np.concatenate(times),
        {
            name: np.concatenate(
                [_padded(found.get(name), n) for found, n in zip(samples, counts, strict=True)]
            )
            for name in names
        },
        {"memory": _means(minutes, (_MEMORY,)), "network": _means(minutes, _NETWORK)},
        {mode: _durations(minutes, f"step/{mode}") for mode in _MODES},
        {name: _spent(minutes, f"step/{name}") for name in (*_MODES, "forward", "wait")},
        sum(lengths),
        _loop(minutes),
    )


def _samples(minute: IndexFile) -> dict[str, Numbers]:
    found: dict[str, Numbers] = {}
    for entry in minute.entries:
        device, _, metric = entry.name.partition("/")
        is_gpu = _GPU.fullmatch(device) is not None
        name = _NAMES.get(metric if is_gpu else entry.name)
        values = None if name is None else inline_value(entry)
        if values is not None and name is not None:
            found[f"{device}{name}" if is_gpu else name] = values.reshape(-1).astype(np.float64)
    return found


def _padded(values: Numbers | None, count: int) -> Numbers:
    padded = np.full(count, np.nan)
    if values is not None:
        padded[: values.size] = values
    return padded


def _means(minutes: Sequence[IndexFile], names: Sequence[str]) -> Numbers:
    """The sum of the means of these series, minute by minute."""
    found = []
    for minute in minutes:
        summaries = [e.summary for name in names if (e := minute.entry(name)) is not None]
        known = [each.mean for each in summaries if each is not None and each.mean is not None]
        found.append(float(sum(known)) if known else np.nan)
    return np.array(found, np.float64)


def _durations(minutes: Sequence[IndexFile], name: str) -> Numbers:
    found = [np.empty(0)]
    for minute in minutes:
        entry = minute.entry(name)
        values = None if entry is None else inline_value(entry)
        if values is not None:
            found.append(values.reshape(-1).astype(np.float64))
    durations = np.concatenate(found)
    return durations[np.isfinite(durations)]


def _loop(minutes: Sequence[IndexFile]) -> tuple[float, float] | None:
    name = f"step/{Mode.TRAIN.name}"
    stepped = [minute for minute in minutes if _spent([minute], name)]
    if not stepped:
        return None
    return 60.0 * stepped[0].step, 60.0 * stepped[-1].step + _seconds(stepped[-1])


def _spent(minutes: Sequence[IndexFile], name: str) -> float:
    summaries = [e.summary for minute in minutes if (e := minute.entry(name)) is not None]
    return sum((each.size or 0) * (each.mean or 0.0) for each in summaries if each is not None)


def _seconds(minute: IndexFile) -> float:
    entry = minute.entry("machine/minute")
    known = entry.summary.max if entry is not None and entry.summary is not None else None
    return known or 60.0
